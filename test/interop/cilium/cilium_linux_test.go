package cilium

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
)

const namespace = "shop"

// clusterSetIP and headless are exported Services. The endpoints are of pods that do not exist: no connection is made.
const clusterSetIP = `
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec:
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-1, labels: {kubernetes.io/service-name: NAME}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.20.ID.1], conditions: {ready: true}}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: NAME}
`

const headless = `
apiVersion: v1
kind: Service
metadata: {name: NAME}
spec:
  clusterIP: None
  ports: [{name: sql, port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: NAME-1, labels: {kubernetes.io/service-name: NAME}}
addressType: IPv4
ports: [{name: sql, port: 5432}]
endpoints:
  - {addresses: [10.20.ID.10], hostname: db-0, conditions: {ready: true}}
  - {addresses: [10.20.ID.11], hostname: db-1, conditions: {ready: true}}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: NAME}
`

// TestBesideCilium has Cilium's imports answered by both plugins, and our controller beside Cilium in the importing cluster.
func TestBesideCilium(t *testing.T) {
	if os.Getenv("INTEROP") == "" {
		t.Skip("needs Cilium's programs: run make e2e-cilium")
	}
	if _, err := programs.Build(t.Context(), os.Stderr); err != nil { // where there is a network
		t.Fatal(err)
	}
	controlplane.InNetNS(t, func(t *testing.T) {
		w := newWorld(t)
		t.Run("DNS answers", w.testAnswers)
		t.Run("our controller", w.testController)
		t.Run("DNS answers beside our controller", w.testAnswers)
	})
}

// world is a mesh. Both clusters export. The tests look at the second, where our programs run.
type world struct {
	mesh    [2]*member
	api     client.Client // of the second
	servers beside.Servers
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{mesh: startMesh(t)}
	w.api = newClient(t, w.mesh[1])
	for i, m := range w.mesh {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := newClient(t, m).Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		w.export(t, i, clusterSetIP, "web")
		w.export(t, i, headless, "db")
	}
	w.servers = beside.StartServers(t, w.mesh[1].Cluster)
	return w
}

func newClient(t *testing.T, m *member) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), mcsv1beta1.Install(scheme)); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(m.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// export creates a Service and its export in a cluster of the mesh.
func (w *world) export(t *testing.T, in int, text, name string) {
	t.Helper()
	m := w.mesh[in]
	text = strings.NewReplacer("NAME", name, "ID", fmt.Sprint(m.id)).Replace(text)
	if err := m.Apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

func (w *world) testAnswers(t *testing.T) {
	web := w.imported(t, "web")
	const below = "." + namespace + ".svc"
	ask := func(name string, qtype uint16, want string) beside.Question {
		return beside.Question{Name: name + below, Type: qtype, Want: want}
	}
	w.servers.Answer(t,
		ask("web", dns.TypeA, "NOERROR "+web.Spec.IPs[0]),
		ask("web", dns.TypeAAAA, "NOERROR"),
		ask("web", dns.TypeSRV, "NOERROR 0 100 80 web.shop.svc.clusterset.local."),
		ask("_http._tcp.web", dns.TypeSRV, "NOERROR 0 100 80 web.shop.svc.clusterset.local."),
		ask("_sql._tcp.web", dns.TypeSRV, "NXDOMAIN"),
		ask("c1.web", dns.TypeA, "NXDOMAIN"),
		ask("db", dns.TypeA, "NOERROR 10.20.1.10 10.20.1.11 10.20.2.10 10.20.2.11"),
		ask("db", dns.TypeAAAA, "NOERROR"),
		ask("db-0.c1.db", dns.TypeA, "NOERROR 10.20.1.10"),
		ask("db-1.c2.db", dns.TypeA, "NOERROR 10.20.2.11"),
		ask("db-2.c1.db", dns.TypeA, "NXDOMAIN"),
		ask("_sql._tcp.db", dns.TypeSRV, "NOERROR 0 25 5432 db-0.c1.db.shop.svc.clusterset.local. 0 25 5432 db-0.c2.db.shop.svc.clusterset.local. "+
			"0 25 5432 db-1.c1.db.shop.svc.clusterset.local. 0 25 5432 db-1.c2.db.shop.svc.clusterset.local."),
		ask("nobody", dns.TypeA, "NXDOMAIN"),
		ask("derived-web", dns.TypeA, "NXDOMAIN"),
	)
}

// imported waits until Cilium has imported a name into the second cluster: ready, and with the addresses of its derived Service.
func (w *world) imported(t *testing.T, name string) *mcsv1beta1.ServiceImport {
	t.Helper()
	imp := new(mcsv1beta1.ServiceImport)
	controlplane.Eventually(t, "the import of "+name, func() error {
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, imp); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(imp.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)) {
			return fmt.Errorf("not ready: %+v", imp.Status.Conditions)
		}
		svc := new(corev1.Service)
		if err := w.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: imp.Annotations[mcs.AnnotationDerivedService]}, svc); err != nil {
			return err
		}
		if imp.Spec.Type == mcsv1beta1.ClusterSetIP && (len(imp.Spec.IPs) == 0 || !slices.Contains(svc.Spec.ClusterIPs, imp.Spec.IPs[0])) {
			return fmt.Errorf("ips %v; the Service has %v", imp.Spec.IPs, svc.Spec.ClusterIPs)
		}
		return nil
	})
	return imp
}

// testController starts our controller where Cilium has imports already. Then the exports change, and new names come.
func (w *world) testController(t *testing.T) {
	writes := beside.WatchWrites(t, w.mesh[1].Cluster, namespace)
	controller, err := binaries.StartController(t.Context(), w.mesh[1].Cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controller.Stop()
		if t.Failed() {
			t.Logf("the controller ended with:\n%s", controlplane.Tail(controller.Log()))
		}
	})
	began := writes.Now()
	w.export(t, 0, clusterSetIP, "new")
	w.imported(t, "new")
	writes.AtMost(t, began, 8)
}
