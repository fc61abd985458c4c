package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

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

// A Service is known by the description on its slices. A description that a user removes is remembered.
func TestADescribedService(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	has := func(port int32, address string) {
		t.Helper()
		kube.Eventually(t, fmt.Sprintf("port %d and %s", port, address), func() error {
			got := r.Snapshot(foo).Active
			if len(got) != 1 || got[0].Service == nil || got[0].Service.Ports[0].Port != port || addresses(got[0])[0] != address {
				return fmt.Errorf("it is %+v", got)
			}
			return nil
		})
	}
	has(80, "10.1.0.1")
	there.describe("foo", terms(82))
	has(82, "10.1.0.1")
	there.describe("foo", "")
	applyTo(t, there.Cluster, there.namespace, strings.Replace(there.slice("foo", "10.1.0.7", there.id), "clusterset-dns.io/terms", "example.com/terms", 1))
	has(82, "10.1.0.7")
}

// Of two slices of a Service, the first by name counts. What is too long, or no description, costs nothing
// else.
func TestDescriptionsOfAHostilePeer(t *testing.T) {
	h := newHeard()
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
		if err := h.slices.Delete(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: slice}}); err != nil {
			t.Fatal(err)
		}
	}
	if m, _ := h.member("east", name); m.Service != nil || len(h.contents.slices.shared) > 0 {
		t.Errorf("without slices, %+v is left", m.Service)
	}
}
