package realkube

import (
	"testing"

	"k8s.io/client-go/discovery"
)

func TestServerSaysItsVersion(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	v, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config).ServerVersion()
	t.Log(v, err)
}
