//go:build tools

// Package oidc pins the OpenID provider that tests log in at.
package oidc

import _ "github.com/zitadel/oidc/v3/example/server"
