package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestLaterExportsAddEndpointsAndPorts (C11, C12, C13, C16, C46): a tenant of the same namespace in
// another cluster is one of the owners of its names. Their export adds endpoints, and ports with
// other names. It changes neither type nor ports of an older export. Both exports report the
// conflict.
func TestLaterExportsAddEndpointsAndPorts(t *testing.T) {
	s := newTenants(t)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	vip := s.answersOfImport("foo")
	tenant := s.tenant("c2", "edit", slicesToo, exportsToo)
	his := world.Service("foo", world.Headless)
	his.Spec.Ports[0].Port = 6666
	his.Spec.Ports = append(his.Spec.Ports, corev1.ServicePort{Name: "his", Port: 7777})
	s.CreateAs(tenant, his, world.Slice("foo-own", map[string]string{labelLeadsTo: "foo"}, "10.66.0.1"), world.Export("foo"))
	for _, c := range []string{"c1", "c2"} {
		s.Until("told in "+c, func() error {
			return s.Condition(c, "foo", "Conflict", metav1.ConditionTrue, "PortConflict,TypeConflict")
		})
	}
	s.settled()
	if imp := s.MustImport("c1", "foo"); imp.Spec.Type != mcsv1beta1.ClusterSetIP || portsOf(imp) != "http/80 his/7777" {
		t.Errorf("the import is %+v", imp.Spec)
	}
	s.Check(s.answered("foo", "NOERROR "+vip))
}

// portsOf are an import's, by name and number.
func portsOf(imp *mcsv1beta1.ServiceImport) string {
	var all []string
	for _, port := range imp.Spec.Ports {
		all = append(all, fmt.Sprintf("%s/%d", port.Name, port.Port))
	}
	return strings.Join(all, " ")
}

// TestExportsReachTheSameNamespaceOnly (C20, C46): an export is of its namespace, here and in each other cluster that has it.
func TestExportsReachTheSameNamespaceOnly(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	theirs.Export("c1", world.Service("foo"), "10.9.1.1")
	vip := theirs.answersOfImport("foo")
	tenant := s.tenant("c2", "admin", exportsToo)
	s.CreateAs(tenant, world.Service("foo"), world.Export("foo"))
	elsewhere := world.Export("foo")
	elsewhere.Namespace = theirs.Name
	if err := s.Try(tenant, elsewhere); !apierrors.IsForbidden(err) {
		t.Errorf("an export of another namespace: %v; want forbidden", err)
	}
	s.answersOfImport("foo")
	s.settled()
	s.Check(theirs.answered("foo", "NOERROR "+vip))
	s.Check(theirs.Imported("c1", "foo", []string{"c1"}, "10.9.1.1"))
}

// TestHugeExportsCostOthersNothing is a regression test: an export can hold 1 MB of labels and annotations, of which an import takes 64 KiB. Each
// controller kept all of it, its own cluster's exports and its peers'. Here both run in the process of the test.
func TestHugeExportsCostOthersNothing(t *testing.T) {
	theirs, s := newTenants(t), newTenants(t)
	tenant := s.tenant("c1", "edit", exportsToo)
	before := heap()
	const exports = 20 // each costs a second of processor time with the race detector, and four times that here and in etcd
	for i := range exports {
		export := world.Export(fmt.Sprint("huge-", i))
		export.Spec.ExportedAnnotations = map[string]string{"a": "b", "z": strings.Repeat("v", 1<<20)}
		export.Spec.ExportedLabels = map[string]string{"long": strings.Repeat("v", 100<<10)}
		s.CreateAs(tenant, world.Service(export.Name), export)
	}
	theirs.Export("c1", world.Service("foo"), "10.9.1.1")
	theirs.Until("a neighbour's export is in c2", func() error { return theirs.hasEndpoints("c2", "foo", "10.9.1.1") })
	for _, c := range []string{"c1", "c2"} {
		for i := range exports {
			name := fmt.Sprint("huge-", i)
			world.Becomes(s.Namespace, c, new(mcsv1beta1.ServiceImport), name, "without what is too much", func(imp *mcsv1beta1.ServiceImport) bool {
				return imp.Annotations["a"] == "b" && imp.Annotations["z"] == "" && len(imp.Labels["long"]) == 0
			})
			s.Until(name+" has its last condition", func() error { return s.Condition("c1", name, "Ready", metav1.ConditionTrue, "Ready") })
		}
	}
	theirs.settled()
	// What decoders have of the last objects goes with later collections. An export that is kept stays.
	kube.Eventually(t, "the exports are not kept", func() error {
		if grown := heap() - before; grown > exports*3<<18 { // three quarters of what they hold
			return fmt.Errorf("%d exports of 1 MB take %d MiB", exports, grown>>20)
		}
		return nil
	})
	// Without this, the tests that follow would wait for the deletion of these exports.
	s.Must(s.Admin("c1").DeleteAllOf(t.Context(), new(mcsv1beta1.ServiceExport), client.InNamespace(s.Name)))
	for i := range exports {
		s.Nowhere(fmt.Sprint("huge-", i))
	}
	theirs.settled()
}

// heap is what is in use of this process' memory, in bytes.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestExportWithoutAServiceKeepsItsAge (C11): the age of an export is its own, and not that of its
// Service. A tenant with the first export of a name, without a Service, decides on type and ports
// as soon as they create the Service, although others already use the name.
func TestExportWithoutAServiceKeepsItsAge(t *testing.T) {
	s := newTenants(t)
	tenant := s.tenant("c1", "edit", exportsToo)
	s.CreateAs(tenant, world.Export("foo")) // of two that are equally old, c1's is the first
	s.Export("c2", world.Service("foo"), "10.9.2.1")
	s.answersOfImport("foo")
	his := world.Service("foo", world.Headless)
	his.Spec.Ports[0].Port = 6666
	s.CreateAs(tenant, his)
	for _, c := range []string{"c1", "c2"} {
		world.Becomes(s.Namespace, c, new(mcsv1beta1.ServiceImport), "foo", "it is the tenant's", func(imp *mcsv1beta1.ServiceImport) bool {
			return imp.Spec.Type == mcsv1beta1.Headless && portsOf(imp) == "http/6666" && len(imp.Spec.IPs) == 0
		})
	}
}
