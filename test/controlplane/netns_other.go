//go:build !linux

package controlplane

import "testing"

// InNetNS needs Linux.
func InNetNS(t *testing.T, _ func(t *testing.T)) {
	t.Helper()
	t.Fatal("this test needs Linux: network namespaces and nftables")
}

func insideNetNS() bool { return false }
