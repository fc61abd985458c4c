package peers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// limit sets an annotation of a peer's Secret, or removes it if the value is "-".
func (r *reader) limit(id, key, value string) {
	r.t.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "-" {
		text = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text)
	if _, err := r.client.CoreV1().Secrets(r.namespace).Patch(r.t.Context(), id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// gives waits until the peer gives these addresses under a name: "-" if it does not export it.
func (r *reader) gives(name types.NamespacedName, want string) {
	r.t.Helper()
	kube.Eventually(r.t, fmt.Sprintf("%s has %q", name, want), func() error {
		got := "-"
		if active := r.Snapshot(name).Active; len(active) > 0 {
			got = strings.Join(addresses(active[0]), " ")
		}
		if got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// The annotations of a peer's Secret limit its namespaces, the addresses of its endpoints and the
// number of its names. The condition counts what is refused.
func TestLimitsOfAPeer(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	for _, name := range []string{"a", "b", "c"} {
		there.export("v1beta1", name)
	}
	applyTo(t, there.Cluster, there.namespace, strings.Replace(there.slice("a", "10.1.0.1", there.id), "endpoints: [", `endpoints: [{addresses: [10.7.0.1]}, `, 1))
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	a, b, c := there.name("a"), there.name("b"), there.name("c")
	r.gives(a, "10.1.0.1 10.7.0.1")

	before := r.calls(a)
	r.limit(there.id, annotationCIDRs, " 10.1.0.0/16, fd00::/8")
	r.gives(a, "10.1.0.1")
	r.is(there.id, Connected, "refused: 1 endpoints in other networks (clusterset-dns.io/endpoint-cidrs)")
	r.called(a, before)
	r.limit(there.id, annotationNamespaces, "shop, other")
	r.gives(a, "-")
	r.is(there.id, Connected, " names in other namespaces (clusterset-dns.io/namespaces)")
	r.limit(there.id, annotationNamespaces, "shop, "+there.namespace)
	r.gives(a, "10.1.0.1")

	// The oldest names stay. When one of them goes, the next takes its place.
	before = r.calls(c)
	r.limit(there.id, annotationServices, "2")
	r.gives(c, "-")
	r.gives(b, "10.1.0.1")
	r.is(there.id, Connected, "1 names too many (clusterset-dns.io/max-services)")
	there.export("v1beta1", "d")
	r.is(there.id, Connected, "2 names too many")
	r.gives(there.name("d"), "-")
	there.unexport("v1beta1", "b")
	r.gives(c, "10.1.0.1")
	kube.Eventually(t, "c is planned again when it goes and when it comes", func() error {
		if again := r.calls(c) - before; again < 2 {
			return fmt.Errorf("%d times", again)
		}
		return nil
	})
	r.limit(there.id, annotationServices, "-")
	r.gives(there.name("d"), "10.1.0.1")
}

// The oldest exports keep their endpoints, and the others are imported without the rest. Without the annotation there is
// a limit, too.
func TestEndpointsOfAPeerAreLimited(t *testing.T) {
	t.Parallel()
	r := New(Options{Home: "home"})
	p := &peer{registry: r, id: "east", contents: newContents()}
	add := func(age int, name string, slices, endpoints int) types.NamespacedName {
		id := types.NamespacedName{Namespace: "ns", Name: name}
		p.contents.exports.put(id, &merge.Export{Created: metav1.Unix(int64(-age), 0)}, nil)
		for i := range slices {
			of := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{mcsv1beta1.LabelServiceName: name}}}
			of.Endpoints = make([]discoveryv1.Endpoint, endpoints)
			p.contents.slices.put(types.NamespacedName{Namespace: "ns", Name: of.Name}, of, nil)
		}
		return id
	}
	old, mid, young := add(3, "old", 2, 20), add(2, "mid", 3, 10), add(1, "young", 1, 10)
	kept := func() (all []int) {
		p.recountLocked()
		for _, id := range []types.NamespacedName{old, mid, young} {
			m, _ := p.memberLocked(id)
			all = append(all, endpointsOf(m.Slices))
		}
		return all
	}
	for _, c := range []struct {
		limit int
		want  []int
		more  int
	}{{0, []int{40, 30, 10}, 0}, {80, []int{40, 30, 10}, 0}, {79, []int{40, 30, 9}, 1}, {55, []int{40, 15, 0}, 25}, {1, []int{1, 0, 0}, 79}} {
		p.limits.endpoints = c.limit
		if got := kept(); !slices.Equal(got, c.want) || p.refusalsLocked().more != c.more {
			t.Errorf("with a limit of %d, %v are kept and %d refused; want %v and %d", c.limit, got, p.refusalsLocked().more, c.want, c.more)
		}
	}
	p.limits.endpoints = 0
	add(1, "young", 60, 1000)
	if got := kept(); !slices.Equal(got, []int{40, 30, defaultEndpoints - 70}) {
		t.Errorf("without a limit, %v are kept", got)
	}
	p.contents.slices.drop(types.NamespacedName{Namespace: "ns", Name: "young-0"}, nil)
	for i := range 60 {
		p.contents.slices.drop(types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("young-%d", i)}, nil)
	}
	if got := kept(); !slices.Equal(got, []int{40, 30, 0}) || p.contents.slices.count.endpoints != 70 || p.quota != nil {
		t.Errorf("%v are kept of %d", got, p.contents.slices.count.endpoints)
	}
}

// Malformed limits are reported with the accepted form. The former limits stay in effect, and a
// peer that was never read is not read.
func TestMalformedLimits(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	p := newPlace(t)
	r := p.read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.limit(there.id, annotationCIDRs, "10.9.0.0/16")
	foo := there.name("foo")
	r.gives(foo, "")
	for _, wrong := range []struct{ key, value, says string }{
		{annotationCIDRs, "10.0.0.0/8, 10.1.0.1", `"10.1.0.1" as entry 2, want networks with commas`},
		{annotationNamespaces, "", `"" as entry 1, want names of namespaces`},
		{annotationNamespaces, "shop,Team A", `"Team A" as entry 2`},
		{annotationServices, "0", `is "0", want a number of at least 1`},
		{annotationServices, "many", `is "many"`},
	} {
		r.limit(there.id, wrong.key, wrong.value)
		r.is(there.id, InvalidLimits, wrong.says, "The limits before this change stay in effect")
		r.gives(foo, "")
		r.limit(there.id, wrong.key, "-")
		r.limit(there.id, annotationCIDRs, "10.9.0.0/16")
	}
	r.limit(there.id, annotationServices, "many")
	r.stop()
	again := p.read(t)
	again.says(foo, "?"+there.id) // The Lease says InvalidLimits since before the restart.
	again.is(there.id, InvalidLimits)
	again.limit(there.id, annotationServices, "-")
	again.limit(there.id, annotationCIDRs, "-")
	again.is(there.id, Connected)
	again.gives(foo, "10.1.0.1")
}
