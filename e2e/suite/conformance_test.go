// Package suite runs the official conformance suite of Gateway API as it is.
package suite

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) {
	conformance.RunConformance(t)
}
