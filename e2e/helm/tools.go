//go:build tools

// Package tools pins helm, whose modules do not go together with those of Kubernetes beside it.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
