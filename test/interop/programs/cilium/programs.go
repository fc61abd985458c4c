//go:build tools

// Package cilium pins the programs that the tests of package interop run.
package cilium

import (
	_ "github.com/cilium/cilium/clustermesh-apiserver"
	_ "github.com/cilium/cilium/operator"
)
