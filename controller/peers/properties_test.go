package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// annotate sets an annotation of the cluster's namespace, or removes it if the value is "".
func (c *cluster) annotate(key, value string) {
	c.t.Helper()
	annotate(c.t, c.Cluster, c.namespace, key, value)
}

func annotate(t testing.TB, c *kube.Cluster, namespace, key, value string) {
	t.Helper()
	text := fmt.Sprintf("%q", value)
	if value == "" {
		text = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, text)
	if _, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A peer announces the properties of its cluster beside its ID. They stay while the peer cannot be
// reached. Malformed ones count as absent.
func TestPropertiesOfAPeer(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	has := func(want string) {
		t.Helper()
		kube.Eventually(t, "the properties "+want, func() error {
			active := r.Snapshot(there.name("foo")).Active
			if len(active) != 1 || labels.Set(active[0].Properties).String() != want {
				return fmt.Errorf("foo is %+v", active)
			}
			return nil
		})
	}
	has("")
	standing := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.standings[there.id]
	}
	before := standing()
	there.annotate(mcs.AnnotationProperties, "region.topology.kubernetes.io=eu,tier.example.com=gold")
	has("region.topology.kubernetes.io=eu,tier.example.com=gold")
	kube.Eventually(t, "the imports are planned again", func() error {
		if n := standing(); n <= before {
			return fmt.Errorf("%d times, as before", n)
		}
		return nil
	})
	there.annotate(mcs.AnnotationProperties, "region")
	has("")
	there.annotate(mcs.AnnotationProperties, "region.topology.kubernetes.io=us")
	has("region.topology.kubernetes.io=us")
	there.announce("another")
	r.is(there.id, WrongID)
	has("region.topology.kubernetes.io=us")
	there.announce(there.id)
	there.annotate(mcs.AnnotationProperties, "long="+strings.Repeat("x,y=", maxProperties/4)+"z")
	r.is(there.id, Connected)
	has("")
}

// The properties of this cluster are announced in the namespace of the controller. Until they are
// known, those stay that were announced before.
func TestPropertiesOfThisClusterAreAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	annotate(t, home.Cluster(t), p.namespace, mcs.AnnotationClusterID, p.namespace)
	annotate(t, home.Cluster(t), p.namespace, mcs.AnnotationProperties, "region.topology.kubernetes.io=old")
	r := p.read(t)
	announced := func(want string) {
		t.Helper()
		kube.Eventually(t, "announced: "+want, func() error {
			ns, err := r.client.CoreV1().Namespaces().Get(t.Context(), p.namespace, metav1.GetOptions{})
			if err == nil && ns.Annotations[mcs.AnnotationProperties] != want {
				err = fmt.Errorf("the annotations are %v", ns.Annotations)
			}
			return err
		})
	}
	kube.Eventually(t, "those of before", func() error {
		if got := labels.Set(r.Properties()).String(); got != "region.topology.kubernetes.io=old" {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
	r.SetProperties(map[string]string{"region.topology.kubernetes.io": "eu", "tier.example.com": "gold"})
	announced("region.topology.kubernetes.io=eu,tier.example.com=gold")
	if got := labels.Set(r.Properties()).String(); got != "region.topology.kubernetes.io=eu,tier.example.com=gold" {
		t.Errorf("they are %q", got)
	}
	// Another writer: the controller repairs it, at most once in a minute.
	annotate(t, home.Cluster(t), p.namespace, mcs.AnnotationProperties, "region.topology.kubernetes.io=theirs")
	r.looked(r.namespace)
	announced("region.topology.kubernetes.io=theirs")
	r.clock.forward(propertiesEvery)
	r.identityChanged(nil)
	announced("region.topology.kubernetes.io=eu,tier.example.com=gold")
	r.clock.forward(propertiesEvery)
	r.SetProperties(nil)
	announced("")
}

// overtaken is a Writer with another one that annotates the namespace first.
type overtaken struct {
	Writer
	first func(annotations map[string]any)
}

func (w overtaken) Announce(ctx context.Context, namespace, resourceVersion string, annotations map[string]any) error {
	w.first(annotations)
	return w.Writer.Announce(ctx, namespace, resourceVersion, annotations)
}

// TestAConflictDoesNotDelayTheProperties is a regression test: a write that the API server refused counted as one, and
// the next was tried a minute later. The clock stands still here, so that no minute passes.
func TestAConflictDoesNotDelayTheProperties(t *testing.T) {
	t.Parallel()
	p, began := newPlace(t), time.Now()
	conflict := sync.OnceFunc(func() { annotate(t, home.Cluster(t), p.namespace, "example.com/theirs", "too") })
	r := p.read(t, func(o *Options) {
		o.Now = func() time.Time { return began }
		o.Writer = overtaken{o.Writer, func(annotations map[string]any) {
			if _, ours := annotations[mcs.AnnotationProperties]; ours {
				conflict()
			}
		}}
	})
	r.SetProperties(map[string]string{"tier.example.com": "gold"})
	kube.Eventually(t, "announced", func() error {
		ns, err := r.client.CoreV1().Namespaces().Get(t.Context(), p.namespace, metav1.GetOptions{})
		if err == nil && (ns.Annotations[mcs.AnnotationProperties] != "tier.example.com=gold" || ns.Annotations["example.com/theirs"] != "too") {
			err = fmt.Errorf("the annotations are %v", ns.Annotations)
		}
		return err
	})
}

// A peer announces the namespaces that it exports from. A list that is too long counts as an empty one.
func TestNamespacesThatAPeerExportsFrom(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	foo := there.name("foo")
	r.gives(foo, "10.1.0.1")
	last := "10.1.0.1"
	for _, step := range []struct{ announced, want string }{
		{"shop, data", "-"}, {"shop, " + there.namespace, "10.1.0.1"}, {",", "-"},
		{there.namespace + strings.Repeat(",x", maxNamespaces/2), "-"}, {"", "10.1.0.1"}, // "" removes the annotation
	} {
		before := r.calls(foo)
		there.annotate(mcs.AnnotationExportNamespaces, step.announced)
		r.gives(foo, step.want)
		if step.want != last {
			r.called(foo, before)
		}
		last = step.want
	}
}

// The namespaces to export from are announced before the ID: a peer that reads the ID must not import from others.
func TestNamespacesAreAnnouncedBeforeTheID(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.read(t, func(o *Options) { o.ExportsAll = false })
	read := func() map[string]string {
		ns, err := r.client.CoreV1().Namespaces().Get(t.Context(), p.namespace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ns.Annotations
	}
	namespaces, err := r.client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + p.namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer namespaces.Stop()
	<-r.begun
	r.SetProperties(map[string]string{"region.topology.kubernetes.io": "eu"})
	if got := read(); len(got) > 0 {
		t.Errorf("announced before the namespaces are known: %v", got)
	}
	r.SetExportNamespaces([]string{"data", "shop"})
	var order []string
	for event := range namespaces.ResultChan() {
		annotations := event.Object.(*corev1.Namespace).Annotations
		for _, key := range []string{mcs.AnnotationExportNamespaces, mcs.AnnotationClusterID, mcs.AnnotationProperties} {
			if _, there := annotations[key]; there && !slices.Contains(order, key) {
				order = append(order, key)
			}
		}
		if len(order) == 3 {
			break
		}
	}
	if want := []string{mcs.AnnotationExportNamespaces, mcs.AnnotationClusterID, mcs.AnnotationProperties}; !slices.Equal(order, want) {
		t.Errorf("announced in the order %q", order)
	}
	if got := read()[mcs.AnnotationExportNamespaces]; got != "data,shop" || !r.Announced("shop") || r.Announced("other") {
		t.Errorf("announced: %q", got)
	}
}
