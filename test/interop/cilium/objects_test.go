package cilium

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// These objects have the shape that cilium-operator 1.20.2 gives them (its source: pkg/clustermesh/mcsapi and endpointslicesync). It writes
// them in this order.
const (
	// ciliumImport is complete except for the derived Service.
	ciliumImport = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata:
  name: NAME
  annotations: {clustermesh.cilium.io/supported-ip-families: IPv4}
spec:
  type: TYPE
  sessionAffinity: None
  ipFamilies: [IPv4]
  internalTrafficPolicy: Cluster
  ports: [{name: PORTNAME, port: PORT, protocol: TCP}]
`
	// ciliumService always prefers two families. The addresses of the supported ones become ips.
	ciliumService = `
apiVersion: v1
kind: Service
metadata:
  name: derived-0NAME0
  labels: {multicluster.kubernetes.io/service-name: NAME}
  annotations: {clustermesh.cilium.io/supported-ip-families: IPv4, service.cilium.io/global: "true"}
  ownerReferences: [{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, name: NAME, uid: UID, controller: true, blockOwnerDeletion: true}]
spec:
  type: ClusterIP
  CLUSTERIP
  ipFamilyPolicy: PreferDualStack
  ports: [{name: PORTNAME, port: PORT, protocol: TCP}]
`
	// ciliumSlice is one of a headless import: of another cluster, or a copy of this cluster's own.
	ciliumSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: derived-0db0-CLUSTER
  labels:
    endpointslice.kubernetes.io/managed-by: MANAGER
    kubernetes.io/service-name: derived-0db0
    multicluster.kubernetes.io/service-name: db
    multicluster.kubernetes.io/source-cluster: CLUSTER
addressType: IPv4
ports: [{name: sql, port: 5432}]
endpoints:
  - {addresses: [10.20.ID.10], hostname: db-0, conditions: {ready: true}}
  - {addresses: [10.20.ID.11], hostname: db-1, conditions: {ready: true}}
`
)

// TestObjectsOfCilium has Cilium's objects without Cilium, so that each step can be looked at. It is a regression test: our controller
// derived a second Service from an import whose derived Service Cilium had not made yet, and wrote both of its addresses.
func TestObjectsOfCilium(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	c := kube.New(t, kube.Options{ServiceCIDRs: "10.2.0.0/24,fd00:2::/112"})
	if err := c.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	i := newImporter(t, c)
	i.Write(t, makeNamespace)
	beside.StartController(t, i.Cluster)
	i.imports(t, "web", "ClusterSetIP", "http", "80")
	i.imports(t, "db", "Headless", "sql", "5432")
	for id, manager := range []string{"endpointslice-mesh-controller.cilium.io", "endpointslice-local-mcsapi-controller.cilium.io"} {
		i.Write(t, ciliumSlice, "CLUSTER", fmt.Sprintf("c%d", id+1), "ID", fmt.Sprint(id+1), "MANAGER", manager)
	}
	i.testAnswers(t)
	i.hasSeenAll(t)
	i.testAnswers(t)
	i.notWrittenByUs(t)
}

// imports writes what Cilium writes for a name, and lets our controller act after each step.
func (i *importer) imports(t *testing.T, name, kind, port, number string) {
	t.Helper()
	words := []string{"NAME", name, "TYPE", kind, "PORTNAME", port, "PORT", number, "CLUSTERIP", map[string]string{"Headless": "clusterIP: None"}[kind]}
	i.Write(t, ciliumImport, words...)
	i.hasSeenAll(t)
	imp := new(mcsv1beta1.ServiceImport)
	if err := i.API.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, imp); err != nil {
		t.Fatal(err)
	}
	i.Write(t, ciliumService, append(words, "UID", string(imp.UID))...)
	svc, err := i.Derived(t, name)
	if err != nil {
		t.Fatal(err)
	}
	edited := imp.DeepCopy()
	edited.Annotations[mcs.AnnotationDerivedService] = svc.Name
	if kind == string(mcsv1beta1.ClusterSetIP) {
		edited.Spec.IPs = svc.Spec.ClusterIPs[:1]
	}
	edited.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "ServiceImport is ready", LastTransitionTime: metav1.Now()}}
	if err := errors.Join(i.API.Patch(t.Context(), edited.DeepCopy(), client.MergeFrom(imp)), i.API.Status().Patch(t.Context(), edited, client.MergeFrom(imp))); err != nil {
		t.Fatal(err)
	}
	i.hasSeenAll(t)
	i.imported(t, name)
}

// ofUser begins the names of the imports of users.
const ofUser = "user-"

// hasSeenAll waits until our controller has served an import of a user that is newer than all objects of Cilium.
func (i *importer) hasSeenAll(t *testing.T) {
	t.Helper()
	user := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: ofUser}}
	user.Spec = mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Port: 80}}}
	if err := i.API.Create(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "an import of a user", func() error {
		err := i.API.Get(t.Context(), client.ObjectKeyFromObject(user), user)
		if err == nil && len(user.Spec.IPs) == 0 {
			err = errors.New("no ips")
		}
		return err
	})
}
