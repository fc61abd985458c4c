package rules

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
)

// TestServiceReplacedByForce is a regression test: `kubectl replace --force` deletes the only exporter's Service and creates it anew, its ServiceExport
// being there all the time. The import in the other cluster keeps its UID, its ips and its endpoints.
func TestServiceReplacedByForce(t *testing.T) {
	grace := func(o *reconcile.Options) { o.ServiceGrace = 0 } // as it is in production: a minute
	p := newDuo(t, 0, grace)
	p.end(0)
	p.run(0, grace)
	svc := service("foo")
	p.export(0, svc, "10.9.1.1")
	whole := func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.1") }
	p.until("imported", whole)
	before := p.found("foo")
	slice := endpointsOf(svc, "", "10.9.1.1")
	slice.Namespace = p.namespace
	p.delete(0, service("foo"), slice)
	p.until("the export reports it", func() error { return p.condition(0, "foo", "Valid", "False", "NoService") })
	p.passes("marker") // Both controllers have seen it by now.
	p.same(before, "foo")
	if err := whole(); err != nil {
		t.Error(err)
	}
	p.create(0, service("foo"))
	p.until("the export is ready", func() error { return p.healthy(0, "foo") })
	p.create(0, endpointsOf(svc, "2", "10.9.1.2"))
	p.until("the new endpoints", func() error { return p.imported(1, "foo", []string{"c1"}, "10.9.1.2") })
	p.same(before, "foo")
}

// TestNewcomerWithNamedPorts is a regression test: the oldest export has one port without a name; a newcomer names its ports.
func TestNewcomerWithNamedPorts(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("foo", withPorts(corev1.ServicePort{Port: 80})), "10.9.1.1")
	s.until("imported", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.1") })
	before := s.found("foo")
	s.export(1, service("foo", withPorts(corev1.ServicePort{Name: "http", Port: 80}, corev1.ServicePort{Name: "metrics", Port: 9090})), "10.9.2.1")
	s.until("both", func() error { return s.imported(2, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.2.1") })
	s.until("the port of the oldest export has its endpoints", func() error {
		derived := new(corev1.Service)
		err := s.set[2].Admin.Get(s.Context(), s.key("derived-foo"), derived)
		if err == nil && (len(derived.Spec.Ports) != 2 || derived.Spec.Ports[0].Name != "unnamed-80-tcp" || derived.Spec.Ports[0].Port != 80) {
			err = fmt.Errorf("ports %+v", derived.Spec.Ports)
		}
		imported, listed := s.set[2].Imported(s.Context(), s.key("foo"))
		for _, slice := range imported["c1"] {
			if len(slice.Ports) != 2 || *slice.Ports[1].Name != "unnamed-80-tcp" || *slice.Ports[1].Port != 8080 {
				err = errors.Join(err, fmt.Errorf("slice %s has ports %v", slice.Name, slice.Ports))
			}
		}
		return errors.Join(err, listed, s.condition(0, "foo", "Conflict", "True", "PortConflict"))
	})
	s.same(before, "foo")
}

// identityOf is what of an import must never change.
type identityOf struct {
	uid types.UID
	ips []string
}

// found is the identity of an import in the last cluster of the stage.
func (s *stage) found(name string) identityOf {
	s.Helper()
	imp, err := s.imp(len(s.set)-1, name)
	if err != nil {
		s.Fatal(err)
	}
	return identityOf{imp.UID, imp.Spec.IPs}
}

// same wants the import as it was.
func (s *stage) same(before identityOf, name string) {
	s.Helper()
	if now := s.found(name); now.uid != before.uid || !slices.Equal(now.ips, before.ips) {
		s.Errorf("%s was %v and is %v", name, before, now)
	}
}
