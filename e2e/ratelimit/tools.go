//go:build tools

// Package tools pins Envoy's rate limit service, whose modules do not go together with those of Kubernetes beside it.
package tools

import _ "github.com/envoyproxy/ratelimit/src/service_cmd"
