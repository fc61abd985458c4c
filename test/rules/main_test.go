// Package rules shows each rule between clusters: tests change objects in one cluster, and wait for what KEP-1645 and
// docs/requirements.md (C1 and so on) demand in the others.
package rules

import (
	"os"
	"testing"

	"github.com/clusterset-dns/multicluster/test/world"
)

func TestMain(m *testing.M) {
	os.Exit(world.Main(m, func() {
		stopKubernetes()
		beside.coredns.Stop()
	}))
}
