package simulated

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/interop/beside"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world"
)

// compared is the World of the comparison. Of its Services, some are headless, and each has several slices.
var compared = World{Peers: 1, Services: 20, Endpoints: 5, SliceSize: 2, HeadlessEvery: 5, Unexported: 3, Namespaces: 2}

// TestControllerWritesTheSame runs the real controller in two new clusters. The peer of one is a kube-apiserver, that of the other a
// Server. Both peers have the same objects, and get the same changes. What the controllers make of them is compared:
//
//  1. After each change, the ServiceImports, Services and EndpointSlices of both clusters have to become the same: names, and everything
//     in them but UIDs, versions, times, generations and ClusterIPs, which differ between any two clusters.
//  2. At the end, the same objects were written since the start, also those that are deleted again. How often each was written is not
//     compared: events that arrive together make one write, and they do not arrive together in both.
//  3. Then nothing is written without a cause: while a new name is imported, no older object is written in either cluster.
func TestControllerWritesTheSame(t *testing.T) {
	kube.NotShort(t)
	actual := newHome(t, "p00")
	other, simulated := realPeer{actual, t.Context()}, model{start(t, compared, Options{}), t.Context()}
	if err := other.fill(compared.Objects(0)); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := simulated.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	pair := comparison{of: [2]string{"kube-apiserver", "simulated"}}
	for i, text := range [][]byte{actual.ReaderKubeconfig, kubeconfig} {
		home := newHome(t, "home")
		for _, namespace := range compared.AllNamespaces() {
			if err := home.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
				t.Fatal(err)
			}
		}
		pair.in[i] = record(t, home.Config, compared.AllNamespaces())
		if err := home.Join(t.Context(), compared.ID(0), text); err != nil {
			t.Fatal(err)
		}
		beside.StartController(t, home.Cluster, "--cluster-id=home", "--probe-peers=false", "--leader-elect=false")
	}
	pair.same(t, "the first sync", func(objects map[string]string) error {
		return errors.Join(count(objects, "ServiceImport ", compared.Services), count(objects, "EndpointSlice ", compared.Slices()),
			count(objects, "Service ", compared.Services-compared.Services/compared.HeadlessEvery))
	})
	for _, change := range changes() {
		before, _ := pair.in[0].now(t)
		began := time.Now()
		for _, p := range []peer{other, simulated} {
			if err := change.make(p); err != nil {
				t.Fatalf("%s: %v", change.what, err)
			}
		}
		pair.same(t, change.what, func(objects map[string]string) error {
			if maps.Equal(objects, before) {
				return errors.New("nothing has changed")
			}
			return nil
		})
		t.Logf("%s: %v", change.what, time.Since(began).Round(time.Millisecond))
	}
	pair.rest(t, other, simulated)
	if a, b := pair.in[0].since(0), pair.in[1].since(0); !slices.Equal(a, b) {
		t.Errorf("written:\n%s:\n%s\n%s:\n%s", pair.of[0], strings.Join(a, "\n"), pair.of[1], strings.Join(b, "\n"))
	}
	pair.log(t)
}

// newHome starts a cluster until the end of the test.
func newHome(t *testing.T, id string) *world.Cluster {
	t.Helper()
	c, err := world.Start(t.Context(), id, kube.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

type change struct {
	what string
	make func(peer) error
}

// changes are what happens in the peer. Each changes something in the importing cluster.
func changes() []change {
	at := func(i int) name { return name{compared.Namespace(i), compared.Name(0, i)} }
	slice := func(i, part int, edit func(*discoveryv1.EndpointSlice)) func(peer) error {
		return func(p peer) error {
			of := compared.Slice(0, i, part)
			edit(of)
			return p.Apply(of)
		}
	}
	return []change{
		{"an address changes", slice(0, 0, func(of *discoveryv1.EndpointSlice) { of.Endpoints[0].Addresses[0] = "10.200.0.1" })},
		{"an endpoint is no longer ready", slice(1, 1, func(of *discoveryv1.EndpointSlice) { of.Endpoints[0].Conditions.Ready = new(false) })},
		{"a pod of a headless Service leaves", slice(4, 2, func(of *discoveryv1.EndpointSlice) { of.Endpoints = nil })},
		{"a slice is deleted", func(p peer) error { return p.Delete(compared.Slice(0, 2, 2)) }},
		{"an export is deleted", func(p peer) error {
			return errors.Join(p.Delete(export(at(3))), p.Delete(compared.Slice(0, 3, 0)), p.Delete(compared.Slice(0, 3, 1)), p.Delete(compared.Slice(0, 3, 2)))
		}},
		{"a headless export is deleted, its slices stay", func(p peer) error { return p.Delete(export(at(9))) }},
		{"the ports of a Service change", edited(5, service(at(5), "10.0.0.200", 8443))},
		{"labels are exported", func(p peer) error {
			labelled := export(at(6))
			labelled.Spec.ExportedLabels = map[string]string{"team": "shop"}
			return p.Apply(labelled)
		}},
		{"the session affinity of a Service changes", func(p peer) error {
			svc := service(at(7), "10.0.0.201", 80)
			svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(600))}}
			return edited(7, svc)(p)
		}},
		{"a Service is exported without endpoints", func(p peer) error {
			at := name{compared.Namespace(0), "internal-0"}
			empty := emptySlice(at, compared.ID(0), ownership.SliceStem(at.name, compared.ID(0), discoveryv1.AddressTypeIPv4)+"0000000000", false)
			describe(empty, service(at, "10.0.0.1", 80))
			return errors.Join(p.Apply(empty), p.Apply(export(at)))
		}},
		{"a new Service is exported", newName(0)},
		{"the API server restarts, and an address changes", func(p peer) error {
			return errors.Join(p.restart(), slice(8, 0, func(of *discoveryv1.EndpointSlice) { of.Endpoints[1].Addresses[0] = "10.200.0.2" })(p))
		}},
		{"the cluster announces properties", func(p peer) error {
			n := compared.announcing(0)
			n.Annotations[mcs.AnnotationHeartbeat] = time.Now().UTC().Format(time.RFC3339)
			n.Annotations[mcs.AnnotationExportNamespaces] = compared.Namespace(0)
			return p.Apply(n)
		}},
	}
}

// edited changes an exported Service, and its description.
func edited(i int, svc *corev1.Service) func(peer) error {
	return func(p peer) error {
		slice := compared.Slice(0, i, 0)
		describe(slice, svc)
		return errors.Join(p.Apply(svc), p.Apply(slice))
	}
}

// newName exports a Service that was not there before. The namespaces change by turns, and the even ones stay exported.
func newName(i int) func(peer) error {
	return func(p peer) error {
		for _, object := range compared.Exported(0, compared.Services+2*i) {
			if err := p.Apply(object); err != nil {
				return err
			}
		}
		return nil
	}
}

// comparison are two clusters, by what their peer is.
type comparison struct {
	of [2]string
	in [2]*recorder
}

// same waits until both clusters have the same objects, for which a condition holds.
func (c comparison) same(t *testing.T, what string, condition func(objects map[string]string) error) {
	t.Helper()
	kube.Eventually(t, what, func() error {
		a, _ := c.in[0].now(t)
		b, _ := c.in[1].now(t)
		if err := condition(a); err != nil {
			return fmt.Errorf("with a %s: %w", c.of[0], err)
		}
		for _, key := range slices.Sorted(maps.Keys(union(a, b))) {
			if a[key] != b[key] {
				return fmt.Errorf("%s differs:\n%s: %s\n%s: %s", key, c.of[0], a[key], c.of[1], b[key])
			}
		}
		return nil
	})
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func count(objects map[string]string, kind string, want int) error {
	n := 0
	for key := range objects {
		if strings.HasPrefix(key, kind) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %s; want %d", n, kind, want)
	}
	return nil
}

// rest fails the test if older objects are still written in each of several rounds, each of which lasts until a new name is imported. The
// last writes of what happened before can be late.
func (c comparison) rest(t *testing.T, peers ...peer) {
	t.Helper()
	const rounds = 10
	var late []string
	for round := range rounds {
		var marks [2]int
		before := [2]map[string]string{}
		for i, r := range c.in {
			before[i], marks[i] = r.now(t)
		}
		for _, p := range peers {
			if err := newName(round + 1)(p); err != nil {
				t.Fatal(err)
			}
		}
		called := compared.Name(0, compared.Services+2*(round+1))
		c.same(t, "a new name", func(objects map[string]string) error { return imported(objects, called) })
		late = nil
		for i, r := range c.in {
			for _, key := range r.since(marks[i]) {
				if !strings.Contains(key, called) {
					late = append(late, c.of[i]+": "+key)
				}
			}
		}
		if len(late) == 0 {
			t.Logf("nothing but a new name was written in round %d", round+1)
			return
		}
	}
	t.Errorf("still written in round %d: %v", rounds, late)
}

// imported returns what is missing of a name that is imported with all its slices.
func imported(objects map[string]string, called string) error {
	for key, text := range objects {
		if strings.HasPrefix(key, "ServiceImport ") && strings.HasSuffix(key, "/"+called) {
			if !strings.Contains(text, `"clusters":[{"cluster":"p00"`) || !strings.Contains(text, mcsv1beta1.GroupName) {
				return fmt.Errorf("its status is not written: %s", text)
			}
			return count(sliced(objects, called), "EndpointSlice ", compared.slicesOfService())
		}
	}
	return errors.New("it has no import")
}

func sliced(objects map[string]string, called string) map[string]string {
	of := maps.Clone(objects)
	maps.DeleteFunc(of, func(key, _ string) bool { return !strings.Contains(key, "/"+called+".") })
	return of
}

// log shows how many writes there were, and how often one object was written.
func (c comparison) log(t *testing.T) {
	t.Helper()
	for i, r := range c.in {
		_, writes := r.now(t)
		t.Logf("%s: %d writes to %d objects", c.of[i], writes, len(r.since(0)))
	}
}
