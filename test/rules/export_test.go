package rules

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// C1, C2, C20, C22, C24, C28, C29, C32 to C37: from the first export to the last unexport, in the cluster of the Service and in others.
func TestExportAppearsEverywhereAndDisappears(t *testing.T) {
	s := newStage(t, three.start(t))
	foo := service("foo")
	s.export(0, foo, "10.9.1.1", "10.9.1.2")
	var ips [3][]string
	for i := range s.set {
		s.until("imported", func() error { return s.imported(i, "foo", []string{"c1"}, "10.9.1.1", "10.9.1.2") })
		imp, err := s.imp(i, "foo")
		if err != nil {
			t.Fatal(err)
		}
		ips[i] = imp.Spec.IPs
		if imp.Status.EndpointSliceObjects != mcsv1beta1.EndpointSliceObjectsPresent {
			t.Errorf("C29: endpointSliceObjects is %q", imp.Status.EndpointSliceObjects)
		}
	}
	s.until("well", func() error { return s.healthy(0, "foo") })

	// C1: a Service of the same name without an export is ignored.
	s.create(1, service("foo"), endpointsOf(foo, "", "10.9.2.1"))
	s.create(1, exportOf("bar")) // and this one has no Service
	s.until("C2, C8: NoService", func() error {
		return errors.Join(s.condition(1, "bar", "Valid", metav1.ConditionFalse, "NoService"), s.condition(1, "bar", "Ready", metav1.ConditionFalse, "Pending"))
	})
	if err := s.imported(1, "foo", []string{"c1"}, "10.9.1.1", "10.9.1.2"); err != nil {
		t.Error("C1:", err)
	}

	s.create(1, exportOf("foo"))
	for i := range s.set {
		s.until("from both", func() error {
			return s.imported(i, "foo", []string{"c1", "c2"}, "10.9.1.1", "10.9.1.2", "10.9.2.1")
		})
	}
	s.delete(0, exportOf("foo"))
	for i := range s.set {
		s.until("C22: from the other", func() error { return s.imported(i, "foo", []string{"c2"}, "10.9.2.1") })
		if imp, err := s.imp(i, "foo"); err != nil || fmt.Sprint(imp.Spec.IPs) != fmt.Sprint(ips[i]) {
			t.Errorf("C24: ips in %s were %v and are %v (%v)", s.set[i].ID, ips[i], imp.Spec.IPs, err)
		}
	}
	s.delete(1, foo)
	for i := range s.set {
		s.until("C2: without the Service nothing is exported", func() error { return s.nothing(i, "foo") })
	}
	s.until("said", func() error { return s.condition(1, "foo", "Valid", metav1.ConditionFalse, "NoService") })
	s.create(1, service("foo"))
	s.until("a Service that comes after its export", func() error { return s.imported(2, "foo", []string{"c2"}, "10.9.2.1") })
	s.delete(1, exportOf("foo"))
	for i := range s.set {
		s.until("unexported", func() error { return s.nothing(i, "foo") })
	}
}

// C4, and back.
func TestExternalNameIsNotExported(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("foo", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalName, spec.Ports = corev1.ServiceTypeExternalName, "example.org", nil
	}))
	s.until("refused", func() error {
		return errors.Join(s.condition(0, "foo", "Valid", metav1.ConditionFalse, "InvalidServiceType"), s.condition(0, "foo", "Ready", metav1.ConditionFalse, "Failed"))
	})
	s.export(0, service("bar")) // what would have come with it has come after it
	s.until("later ones", func() error { return s.imported(1, "bar", []string{"c1"}) })
	for i := range s.set {
		if err := s.nothing(i, "foo"); err != nil {
			t.Error("C4:", err)
		}
	}
	edit(s, 0, new(corev1.Service), "foo", func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.ExternalName, svc.Spec.Ports = corev1.ServiceTypeClusterIP, "", []corev1.ServicePort{{Port: 80}}
	})
	s.until("exported", func() error { return s.imported(1, "foo", []string{"c1"}) })
}

// C3: node ports and load balancers are local matters.
func TestNodePortAndLoadBalancerAreClusterSetIP(t *testing.T) {
	s := newStage(t, three.start(t))
	for name, kind := range map[string]corev1.ServiceType{"node": corev1.ServiceTypeNodePort, "balanced": corev1.ServiceTypeLoadBalancer} {
		s.export(0, service(name, func(spec *corev1.ServiceSpec) { spec.Type = kind }), "10.9.1.1")
		s.until(name, func() error { return s.imported(1, name, []string{"c1"}, "10.9.1.1") })
		imp, err := s.imp(1, name)
		if err != nil || imp.Spec.Type != mcsv1beta1.ClusterSetIP || len(imp.Spec.Ports) != 1 || imp.Spec.Ports[0].Port != 80 {
			t.Errorf("%s: %+v %v", name, imp.Spec, err)
		}
	}
}

// C20, C21: only where the namespace is, also if it comes later; and what the namespace had goes with it.
func TestNamespaceDecides(t *testing.T) {
	s := newStage(t, three.start(t), 0, 1)
	s.export(0, service("foo"), "10.9.1.1")
	s.until("where the namespace is", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1") })
	if err := s.nothing(2, "foo"); err != nil {
		t.Error(err)
	}
	s.makeNamespace(2)
	s.until("a namespace that came later", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.1") })
	s.delete(2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.until("gone with it", func() error { return s.nothing(2, "foo") })
	s.delete(0, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.until("C40: gone with the exporter's", func() error { return s.nothing(1, "foo") })
}

// C25, C31, C38: StatefulSets with the same pod names in two clusters stay apart.
func TestHeadless(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("db", headless), "10.9.1.1", "10.9.1.2")
	s.export(1, service("db", headless), "10.9.2.1")
	for i := range s.set {
		s.until("imported", func() error { return s.imported(i, "db", []string{"c1", "c2"}, "10.9.1.1", "10.9.1.2", "10.9.2.1") })
		by, err := s.set[i].Imported(t.Context(), s.key("db"))
		if err != nil {
			t.Fatal(err)
		}
		for source, address := range map[string]string{"c1": "10.9.1.1", "c2": "10.9.2.1"} {
			if e := by[source][0].Endpoints[0]; *e.Hostname != "pod-0" || e.Addresses[0] != address {
				t.Errorf("pod-0 of %s is %+v", source, e)
			}
		}
	}
	// C16: a flip of the type, there and back.
	s.delete(0, service("db"))
	s.delete(1, service("db"))
	for i := range s.set {
		s.until("gone", func() error { return s.nothing(i, "db") })
	}
	s.create(0, service("db"))
	for i := range s.set {
		s.until("ClusterSetIP", func() error { return s.imported(i, "db", []string{"c1"}, "10.9.1.1", "10.9.1.2") })
	}
}

// C38: what becomes of endpoints is in the other cluster's slices, conditions and zones included.
func TestEndpointsFollow(t *testing.T) {
	s := newStage(t, three.start(t))
	s.export(0, service("foo"), "10.9.1.1", "10.9.1.2")
	s.until("imported", func() error { return s.imported(1, "foo", []string{"c1"}, "10.9.1.1", "10.9.1.2") })
	edit(s, 0, new(discoveryv1.EndpointSlice), "foo-abc", func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints = slice.Endpoints[1:]
		slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		slice.Endpoints[0].Zone = new("zone-b")
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-11-21T10:00:00.5Z"}
	})
	for i := range s.set {
		s.until("changed", func() error {
			if err := s.imported(i, "foo", []string{"c1"}, "10.9.1.2"); err != nil {
				return err
			}
			by, err := s.set[i].Imported(t.Context(), s.key("foo"))
			if err != nil {
				return err
			}
			slice := by["c1"][0]
			e := slice.Endpoints[0]
			if *e.Conditions.Ready || !*e.Conditions.Serving || !*e.Conditions.Terminating || *e.Zone != "zone-b" || *e.Hostname != "pod-1" {
				return fmt.Errorf("it is %+v", e)
			}
			if slice.Annotations[corev1.EndpointsLastChangeTriggerTime] == "" {
				return fmt.Errorf("annotations %v: when the change was is not handed on", slice.Annotations)
			}
			return nil
		})
	}
	s.create(0, endpointsOf(service("foo"), "-more", "10.9.1.7")) // lighthouse#1108: several slices of one Service
	s.until("both slices", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.2", "10.9.1.7") })
	s.delete(0, endpointsOf(service("foo"), "-more"))
	s.until("one again", func() error { return s.imported(2, "foo", []string{"c1"}, "10.9.1.2") })
}
