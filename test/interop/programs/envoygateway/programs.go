//go:build tools

// Package envoygateway pins the programs that the tests of package interop run.
package envoygateway

import (
	_ "github.com/envoyproxy/gateway/cmd/envoy-gateway"
)
