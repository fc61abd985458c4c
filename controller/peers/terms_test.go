package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// describing announces the version of a cluster's controller, and which one has described the Services.
func (c *cluster) describing(version, terms string) {
	c.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,%q:%q}}}`, mcs.AnnotationVersion, version, mcs.AnnotationTerms, terms)
	if _, err := kubernetesOf(c.Config).CoreV1().Namespaces().Patch(c.t.Context(), c.namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// terms is a description of a Service with one port.
func terms(port int32) string {
	return fmt.Sprintf(`{"Type":"ClusterSetIP","Ports":[{"name":"http","protocol":"TCP","port":%d}],"Affinity":"None","InternalPolicy":"Cluster"}`, port)
}

// describe sets the description on the slice of a name, or removes it for "".
func (c *cluster) describe(name, text string) {
	c.t.Helper()
	annotations := map[string]any{mcs.AnnotationTerms: text}
	if text == "" {
		annotations[mcs.AnnotationTerms] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := kubernetesOf(c.Config).DiscoveryV1().EndpointSlices(c.namespace).Patch(c.t.Context(), name+"-slice", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// port waits until the Service that a peer exports has a port.
func (r *reader) port(name types.NamespacedName, want int32) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("port %d", want), func() error {
		switch got := r.Snapshot(name).Active; {
		case len(got) != 1 || got[0].Service == nil:
			return errors.New("there is no Service")
		case got[0].Service.Ports[0].Port != want:
			return fmt.Errorf("it is %d", got[0].Service.Ports[0].Port)
		}
		return nil
	})
}

// withoutServices is the role of an account that cannot read Services.
const withoutServices = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %s}
rules:
- {apiGroups: [multicluster.x-k8s.io], resources: [serviceexports], verbs: [list, watch]}
- {apiGroups: [""], resources: [namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
`

// A peer that describes its Services needs to give no right for them. Without the description, and with an
// older controller, it is Forbidden, and what it gave stays.
func TestADescribedServiceNeedsNoRight(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.describing("v2", "v2")
	there.export("v1beta1", "foo")
	there.describe("foo", terms(81))
	foo := there.name("foo")
	role := there.id + "-without"
	applyTo(t, there.Cluster, "", fmt.Sprintf(withoutServices, role))
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, account(t, there.Cluster, kube.Namespace(t, there.Cluster), role)))
	r.is(there.id, Connected)
	r.port(foo, 81)
	there.describe("foo", terms(82))
	r.port(foo, 82)
	there.describe("foo", "")
	applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.7", there.id))
	kube.Eventually(t, "the endpoint is seen", func() error {
		if got := addresses(r.Snapshot(foo).Active[0]); got[0] != "10.1.0.7" {
			return fmt.Errorf("it is %v", got)
		}
		return nil
	})
	r.port(foo, 82) // A description that a user has removed is remembered.
	there.describing("v1", "v2")
	r.is(there.id, Forbidden, "services")
	r.port(foo, 82)
	there.describe("foo", terms(83))
	there.describing("v3", "v3")
	r.is(there.id, Connected)
	r.port(foo, 83)
}

// A peer's controller is replaced by a newer one, and that by an older one. The Service is known all the
// time, and no name is reported without it.
func TestAPeerBeginsAndEndsToDescribe(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.describing("v1", "")
	there.export("v1beta1", "foo") // with port 80
	foo := there.name("foo")
	r := newPlace(t).read(t)
	var unknown atomic.Int32
	r.mu.Lock()
	r.onCall = func() {
		for _, m := range r.Snapshot(foo).Active {
			if m.Service == nil {
				unknown.Add(1)
			}
		}
	}
	r.mu.Unlock()
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	r.port(foo, 80)
	there.describe("foo", terms(81))
	there.describing("v2", "v1") // not yet
	there.describing("v2", "v2")
	r.port(foo, 81)
	there.describing("v1", "v2")
	r.port(foo, 80)
	if n := unknown.Load(); n > 0 {
		t.Errorf("%d calls without the Service", n)
	}
}

// Of two slices of a Service, the first by name counts. What is too long, or no description, costs nothing
// else.
func TestDescriptionsOfAHostilePeer(t *testing.T) {
	h := newHeard()
	h.published = true
	if err := h.exports.Add(exportOf("a")); err != nil {
		t.Fatal(err)
	}
	described := func(slice, text string) {
		t.Helper()
		s := sliceOf(slice, "a", "10.0.0.1")
		s.Annotations = map[string]string{mcs.AnnotationTerms: text}
		if err := h.slices.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	name := types.NamespacedName{Namespace: "demo", Name: "a"}
	for _, test := range []struct {
		slice, text string
		want        int32
	}{
		{"a-2", terms(1), 1},
		{"a-1", terms(2), 2},
		{"a-2", terms(3), 2},
		{"a-1", "no description", 3},
		{"a-1", strings.Repeat(" ", merge.MaxTerms) + terms(4), 3},
		{"a-2", `{"Type":"Other"}`, 3}, // None is left: the last one stays.
		{"a-2", terms(5), 5},
	} {
		described(test.slice, test.text)
		if m, _ := h.member("east", name); m.Service == nil || m.Service.Ports[0].Port != test.want {
			t.Errorf("%s with %.40q: %+v, want port %d", test.slice, test.text, m.Service, test.want)
		}
	}
	for _, slice := range h.contents.slices.byService[name] {
		if text := slice.Annotations[mcs.AnnotationTerms]; len(text) > merge.MaxTerms {
			t.Errorf("%d bytes are kept", len(text))
		}
	}
	for _, slice := range []string{"a-1", "a-2"} {
		if err := h.slices.Delete(&discoveryv1.EndpointSlice{ObjectMeta: named(slice)}); err != nil {
			t.Fatal(err)
		}
	}
	if m, _ := h.member("east", name); m.Service != nil || len(h.contents.services.shared) > 0 {
		t.Errorf("without slices, %+v is left", m.Service)
	}
}

// A peer that changes its announcement all the time causes a list of its Services only now and then.
func TestAnnouncementsThatFlapAreBounded(t *testing.T) {
	var lists atomic.Int32
	l := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("fieldSelector") { // the first request of each reading
			lists.Add(1)
		}
		http.Error(w, "no", http.StatusForbidden)
	})
	l.peer.registry.turnEvery = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.followServices(ctx); close(ended) }()
	announce := func(terms string) {
		l.peer.registry.mu.Lock()
		defer l.peer.registry.mu.Unlock()
		l.identity.by["system"], l.identity.seen["system"] = "east", announcement{id: "east", build: "v1", terms: terms}
		l.turnLocked()
	}
	announce("")
	kube.Eventually(t, "the Services are read", func() error {
		if lists.Load() == 0 {
			return errors.New("there is no list")
		}
		return nil
	})
	for range 1000 {
		announce("v1")
		announce("")
	}
	cancel()
	<-ended
	if n := lists.Load(); n != 1 {
		t.Errorf("%d lists", n)
	}
}
