package rules

import (
	"errors"
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// TestARestoredClusterHasNothingStale: etcd of west is restored from an older copy, under running controllers and CoreDNS. What west has imported
// follows east again, what west exports is what it has now, and the names that were there in both times keep their addresses.
func TestARestoredClusterHasNothingStale(t *testing.T) {
	w := world.Joined(t, "east", "west")
	s := w.Namespace()
	w.Run("east")
	w.Run("west")
	coredns, server, err := binaries.StartCoreDNS(w.Late(), w.Cluster("west").Cluster, "coredns", resolver.Corefile)
	w.Must(err)
	t.Cleanup(coredns.Stop)
	answered := func(name, want string) error {
		return resolver.Differs("udp", server, name+"."+s.Name+".svc.clusterset.local. A", want)
	}
	address := func(name string) string {
		s.Helper()
		var ip string
		world.Becomes(s, "west", new(mcsv1beta1.ServiceImport), name, "it has an address", func(imp *mcsv1beta1.ServiceImport) bool {
			if len(imp.Spec.IPs) > 0 {
				ip = imp.Spec.IPs[0]
			}
			return ip != ""
		})
		return ip
	}
	s.Export("east", world.Service("early"), "10.9.1.1")
	s.Export("east", world.Service("kept"), "10.9.1.2")
	s.Export("west", world.Service("mine"), "10.9.2.1")
	s.Until("mine is imported", func() error { return s.Imported("east", "mine", []string{"west"}, "10.9.2.1") })
	early, kept := address("early"), address("kept")
	s.Until("both are answered", func() error {
		return errors.Join(answered("early", "NOERROR "+early), answered("kept", "NOERROR "+kept))
	})

	restore, err := w.Cluster("west").Save(t.Context())
	s.Must(err)
	s.Delete("east", world.Export("early"))
	world.Edit(s, "east", new(discoveryv1.EndpointSlice), "kept-abc", func(slice *discoveryv1.EndpointSlice) { slice.Endpoints[0].Addresses = []string{"10.9.1.9"} })
	s.Export("east", world.Service("late"), "10.9.1.3")
	s.Export("west", world.Service("lost"), "10.9.2.2")
	s.Delete("west", world.Export("mine"))
	late := address("late")
	follows := func() error {
		return errors.Join(s.Nothing("west", "early"), s.Imported("west", "kept", []string{"east"}, "10.9.1.9"), s.Imported("west", "late", []string{"east"}, "10.9.1.3"),
			answered("early", "NXDOMAIN"), answered("kept", "NOERROR "+kept))
	}
	s.Until("west follows", func() error {
		return errors.Join(follows(), answered("late", "NOERROR "+late), s.Nothing("east", "mine"))
	})
	s.Until("lost is imported", func() error { return s.Imported("east", "lost", []string{"west"}, "10.9.2.2") })

	s.Must(restore(t.Context()))
	s.Until("west follows again", func() error { return errors.Join(follows(), answered("late", "NOERROR "+address("late"))) })
	s.Until("east has what west has", func() error {
		return errors.Join(s.Imported("east", "mine", []string{"west"}, "10.9.2.1"), s.Nothing("east", "lost"), s.Condition("west", "mine", "Ready", metav1.ConditionTrue, "Ready"))
	})
	imp := s.MustImport("west", "kept")
	if !slices.Equal(imp.Spec.IPs, []string{kept}) {
		t.Errorf("the address of kept was %s, and is %v", kept, imp.Spec.IPs)
	}
}
