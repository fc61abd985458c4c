//go:build tools

// Package cilium pins the programs that the tests of package interop run. Not every module proxy has the versions that go.mod excludes. Of
// mcs-api/controllers, Cilium uses one constant, and go.mod takes an earlier version of it. Its module conformance is for Cilium's own
// tests.
package cilium

import (
	_ "github.com/cilium/cilium/clustermesh-apiserver"
	_ "github.com/cilium/cilium/operator"
)
