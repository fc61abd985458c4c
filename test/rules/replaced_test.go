package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestServiceReplacedByForce is a regression test: `kubectl replace --force` deletes the only exporter's Service and creates it anew, its ServiceExport
// being there all the time. The import in the other cluster keeps its UID, its ips and its endpoints.
func TestServiceReplacedByForce(t *testing.T) {
	grace := func(o *reconcile.Options) { o.ServiceGrace = 0 } // as it is in production: a minute
	p := reads(t, 0, grace)
	p.Restart("c1", grace)
	svc := world.Service("foo")
	p.Export("c1", svc, "10.9.1.1")
	whole := func() error { return p.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") }
	p.Until("imported", whole)
	before := found(p, "foo")
	slice := world.Endpoints(svc, "", "10.9.1.1")
	slice.Namespace = p.Name
	p.Delete("c1", world.Service("foo"), slice)
	p.Until("the export reports it", func() error { return p.Condition("c1", "foo", "Valid", "False", "NoService") })
	works(p, "marker") // Both controllers have seen it by now.
	same(p, before, "foo")
	if err := whole(); err != nil {
		t.Error(err)
	}
	p.Create("c1", world.Service("foo"))
	p.Until("the export is ready", func() error { return p.Healthy("c1", "foo") })
	p.Create("c1", world.Endpoints(svc, "2", "10.9.1.2"))
	p.Until("the new endpoints", func() error { return p.Imported("c2", "foo", []string{"c1"}, "10.9.1.2") })
	same(p, before, "foo")
}

// TestNewcomerWithNamedPorts is a regression test: the oldest export has one port without a name; a newcomer names its ports.
func TestNewcomerWithNamedPorts(t *testing.T) {
	s := world.Three(t).Namespace()
	s.Export("c1", world.Service("foo", world.Ports(corev1.ServicePort{Port: 80})), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c3", "foo", []string{"c1"}, "10.9.1.1") })
	before := found(s, "foo")
	s.Export("c2", world.Service("foo", world.Ports(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 9090})), "10.9.2.1")
	s.Until("both", func() error { return s.Imported("c3", "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
	s.Until("the port of the oldest export has its endpoints", func() error {
		derived := new(corev1.Service)
		err := s.Admin("c3").Get(s.Context(), s.Key("derived-foo"), derived)
		if err == nil && (len(derived.Spec.Ports) != 2 || derived.Spec.Ports[0].Name != "unnamed-80-tcp" || derived.Spec.Ports[0].Port != 80) {
			err = fmt.Errorf("ports %+v", derived.Spec.Ports)
		}
		imported, listed := s.Cluster("c3").Imported(s.Context(), s.Key("foo"))
		for _, slice := range imported["c1"] {
			if len(slice.Ports) != 2 || *slice.Ports[1].Name != "unnamed-80-tcp" || *slice.Ports[1].Port != 8080 {
				err = errors.Join(err, fmt.Errorf("slice %s has ports %v", slice.Name, slice.Ports))
			}
		}
		return errors.Join(err, listed, s.Condition("c1", "foo", "Conflict", "True", "PortConflict"))
	})
	same(s, before, "foo")
}

// identityOf is what of an import must never change.
type identityOf struct {
	uid types.UID
	ips []string
}

// found is the identity of an import in the last cluster.
func found(s *world.Namespace, name string) identityOf {
	s.Helper()
	imp, err := s.Import(s.IDs()[len(s.Clusters)-1], name)
	if err != nil {
		s.Fatal(err)
	}
	return identityOf{imp.UID, imp.Spec.IPs}
}

// same wants the import as it was.
func same(s *world.Namespace, before identityOf, name string) {
	s.Helper()
	if now := found(s, name); now.uid != before.uid || !slices.Equal(now.ips, before.ips) {
		s.Errorf("%s was %v and is %v", name, before, now)
	}
}
