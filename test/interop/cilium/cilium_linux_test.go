package cilium

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
)

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
	kube.InNetNS(t, func(t *testing.T) {
		ctrl.SetLogger(logr.Discard())
		w := newScene(t)
		t.Run("DNS answers", w.testAnswers)
		t.Run("beside our controller", func(t *testing.T) {
			beside.StartController(t, w.Cluster)
			t.Run("new names and changes", w.testWrites)
			t.Run("DNS answers", w.testAnswers)
		})
		t.Run("beside our controller in a clusterset", func(t *testing.T) {
			beside.StartController(t, w.Cluster, "--cluster-id=c2")
			t.Run("new names and changes", w.testClusterset)
			t.Run("DNS answers", w.testAnswers)
		})
	})
}

// scene is a mesh. Both clusters export. The tests look at the second, where our programs run.
type scene struct {
	*importer // the second
	mesh      [2]*member
}

func newScene(t *testing.T) *scene {
	t.Helper()
	mesh := startMesh(t)
	w := &scene{newImporter(t, mesh[1].Cluster), mesh}
	for i, m := range w.mesh {
		if err := m.Apply(t.Context(), "", makeNamespace); err != nil {
			t.Fatal(err)
		}
		w.export(t, i, clusterSetIP, "web")
		w.export(t, i, headless, "db")
	}
	return w
}

// export creates a Service and its export in a cluster of the mesh.
func (w *scene) export(t *testing.T, in int, text, name string) {
	t.Helper()
	m := w.mesh[in]
	text = strings.NewReplacer("NAME", name, "ID", fmt.Sprint(m.id)).Replace(text)
	if err := m.Apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

const (
	newNames = 10 // exported while both controllers run
	rounds   = 10 // changes of one export
	// most is how often an object of a new name is written: creation, addresses, status and both clusters' exports.
	most = 8
)

// testWrites has new names, which both controllers see at once, and an export that changes.
func (w *scene) testWrites(t *testing.T) {
	writes := beside.WatchWrites(t, w.Cluster, namespace, "v1beta1")
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
	w.settled(t, writes, began, 0, "last")
}

// settled has few writes since a mark, and none to what exists while a cluster exports more names.
func (w *scene) settled(t *testing.T, writes *beside.Writes, since beside.Mark, in int, name string) {
	t.Helper()
	writes.Rest(t, func(round int) {
		another := fmt.Sprintf("%s-%d", name, round)
		w.export(t, in, clusterSetIP, another)
		w.imported(t, another)
	})
	writes.AtMost(t, since, max(most, 5*rounds))
	w.notWrittenByUs(t)
}

// change exports another label of web from both clusters, and waits until the derived Service in the second has it. Users can export the
// controller's own label as well.
func (w *scene) change(t *testing.T, value string) {
	t.Helper()
	text := strings.Replace("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web}\nspec: {exportedLabels: {round: VALUE, app.kubernetes.io/managed-by: multicluster-controller}}\n", "VALUE", value, 1)
	for _, m := range w.mesh {
		if err := m.Apply(t.Context(), namespace, text); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, value, func() error {
		svc, err := w.Derived(t, "web")
		if err == nil && svc.Labels["round"] != value {
			err = fmt.Errorf("labels %v", svc.Labels)
		}
		return err
	})
}

// testClusterset has our controller with the ID of this cluster, so that it too merges what the cluster exports.
func (w *scene) testClusterset(t *testing.T) {
	writes := beside.WatchWrites(t, w.Cluster, namespace, "v1beta1")
	began := writes.Now()
	for i := range newNames {
		w.export(t, 1, clusterSetIP, fmt.Sprintf("own-%d", i))
	}
	for i := range newNames {
		w.imported(t, fmt.Sprintf("own-%d", i))
	}
	for i := range rounds {
		w.change(t, fmt.Sprintf("clusterset-round-%d", i))
	}
	w.settled(t, writes, began, 1, "own-last")
}
