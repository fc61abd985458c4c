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
		t.Run("beside our controller", func(t *testing.T) {
			w.startController(t)
			t.Run("new names and changes", w.testWrites)
			t.Run("DNS answers", w.testAnswers)
		})
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

// imported waits until Cilium has imported a name into the second cluster: ready, and with addresses of its derived Service, the only one.
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
		svc, err := w.derived(t, name)
		if err != nil {
			return err
		}
		var want []string
		if svc.Spec.ClusterIP != corev1.ClusterIPNone {
			want = svc.Spec.ClusterIPs[:1] // the exports have endpoints of one family
		}
		if svc.Name != imp.Annotations[mcs.AnnotationDerivedService] || !slices.Equal(imp.Spec.IPs, want) {
			return fmt.Errorf("ips %v and annotations %v; Service %s has %v", imp.Spec.IPs, imp.Annotations, svc.Name, svc.Spec.ClusterIPs)
		}
		return nil
	})
	return imp
}

// derived is the only Service that the import of a name owns.
func (w *world) derived(t *testing.T, name string) (*corev1.Service, error) {
	t.Helper()
	var all corev1.ServiceList
	if err := w.api.List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	all.Items = slices.DeleteFunc(all.Items, func(svc corev1.Service) bool {
		return !slices.ContainsFunc(svc.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.Name == name })
	})
	if len(all.Items) != 1 {
		return nil, fmt.Errorf("%d derived Services", len(all.Items))
	}
	return &all.Items[0], nil
}

const (
	newNames = 10 // exported while both controllers run
	rounds   = 10 // changes of one export
	// most is how often an object of a new name is written: creation, addresses, status and both clusters' exports.
	most = 8
)

// testWrites has new names, which both controllers see at once, and an export that changes.
func (w *world) testWrites(t *testing.T) {
	writes := beside.WatchWrites(t, w.mesh[1].Cluster, namespace, "v1beta1")
	began := writes.Now()
	for i := range newNames {
		w.export(t, 0, clusterSetIP, fmt.Sprintf("new-%d", i))
	}
	for i := range newNames {
		w.imported(t, fmt.Sprintf("new-%d", i))
	}
	w.imported(t, "web")
	writes.AtMost(t, began, most)
	began = writes.Now()
	for i := range rounds {
		w.change(t, fmt.Sprintf("round-%d", i))
	}
	w.export(t, 0, clusterSetIP, "last")
	w.imported(t, "last")
	writes.AtMost(t, began, max(most, 3*rounds))
}

func (w *world) startController(t *testing.T, flags ...string) {
	t.Helper()
	controller, err := binaries.StartController(t.Context(), w.mesh[1].Cluster, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		controller.Stop()
		if t.Failed() {
			t.Logf("the controller ended with:\n%s", controlplane.Tail(controller.Log()))
		}
	})
}

// change exports another label of web from both clusters, and waits until the derived Service in the second has it.
func (w *world) change(t *testing.T, value string) {
	t.Helper()
	text := strings.Replace("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web}\nspec: {exportedLabels: {round: VALUE}}\n", "VALUE", value, 1)
	for _, m := range w.mesh {
		if err := m.Apply(t.Context(), namespace, text); err != nil {
			t.Fatal(err)
		}
	}
	controlplane.Eventually(t, value, func() error {
		svc, err := w.derived(t, "web")
		if err == nil && svc.Labels["round"] != value {
			err = fmt.Errorf("labels %v", svc.Labels)
		}
		return err
	})
}
