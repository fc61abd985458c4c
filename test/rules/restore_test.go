package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// An administrator restores the etcd of c1 from an older copy, under running controllers and a running CoreDNS. Versions of objects go
// back with it, and watches from later ones would show nothing for days. What the copy has not is gone in every cluster and in DNS,
// what it has is back, and what changes afterwards is seen.
func TestARestoredClusterHasNothingStale(t *testing.T) {
	w := world.Two(t)
	s := w.Namespace()
	c1 := w.Cluster("c1")
	w.Run("c1")
	w.Run("c2")
	program, address, err := binaries.StartCoreDNS(t.Context(), c1.Cluster, "coredns", resolver.Corefile)
	t.Cleanup(program.Stop)
	s.Must(err)
	// shows waits until both clusters have exactly these names, each with an address of the cluster that its name begins with.
	of := func(name string) string { return name[:2] }
	ip := map[string]string{
		"c1-before": "10.9.1.1", "c1-after": "10.9.1.2", "c1-since": "10.9.1.3",
		"c2-before": "10.9.2.1", "c2-after": "10.9.2.2", "c2-since": "10.9.2.3",
	}
	export := func(name string) { s.Export(of(name), world.Service(name), ip[name]) }
	remove := func(name string) {
		s.Delete(of(name), world.Export(name), world.Service(name), world.Endpoints(world.Service(name), "", ip[name]))
	}
	answers := func(name, want string) error {
		return resolver.Differs("udp", address, name+"."+s.Name+".svc.clusterset.local. A", want)
	}
	shows := func(when string, want ...string) {
		s.Helper()
		for name := range ip {
			s.Until(name+" "+when, func() error {
				if !slices.Contains(want, name) {
					return errors.Join(s.Nothing("c1", name), s.Nothing("c2", name), answers(name, "NXDOMAIN"))
				}
				imp, err := s.Import("c1", name)
				if err != nil {
					return err
				}
				return errors.Join(s.Imported("c1", name, []string{of(name)}, ip[name]), s.Imported("c2", name, []string{of(name)}, ip[name]),
					answers(name, "NOERROR "+strings.Join(imp.Spec.IPs, " ")))
			})
		}
	}

	export("c1-before")
	export("c2-before")
	shows("at first", "c1-before", "c2-before")
	restore, err := c1.Save(t.Context())
	s.Must(err)
	remove("c1-before")
	remove("c2-before")
	export("c1-after")
	export("c2-after")
	shows("after the copy", "c1-after", "c2-after")
	s.Must(restore(t.Context()))
	shows("after the restore", "c1-before", "c2-after")
	export("c1-since")
	export("c2-since")
	remove("c1-before")
	shows("since then", "c2-after", "c1-since", "c2-since")
}
