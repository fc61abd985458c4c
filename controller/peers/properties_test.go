package peers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// properties announces properties of the cluster.
func (c *cluster) properties(text string) {
	c.t.Helper()
	c.announcing(func(a *member.Announcement) { a.Properties = text })
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
	there.properties("region.topology.kubernetes.io=eu,tier.example.com=gold")
	has("region.topology.kubernetes.io=eu,tier.example.com=gold")
	kube.Eventually(t, "the imports are planned again", func() error {
		if n := standing(); n <= before {
			return fmt.Errorf("%d times, as before", n)
		}
		return nil
	})
	there.properties("region")
	has("")
	there.properties("region.topology.kubernetes.io=us")
	has("region.topology.kubernetes.io=us")
	there.announce("another")
	r.is(there.id, WrongID)
	has("region.topology.kubernetes.io=us")
	there.announce(there.id)
	there.properties("long=" + strings.Repeat("x,y=", 16<<10/4) + "z")
	r.is(there.id, Connected)
	has("")
}

// The properties of this cluster are announced. Until they are known, those stay that were announced before.
func TestPropertiesOfThisClusterAreAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	own := &cluster{t: t, Cluster: home.Cluster(t), namespace: p.namespace}
	own.announce(p.namespace)
	own.properties("region.topology.kubernetes.io=old")
	r := p.read(t)
	announced := func(want string) {
		t.Helper()
		kube.Eventually(t, "announced: "+want, func() error {
			got, err := announcedIn(t, home.Cluster(t), p.namespace)
			if err == nil && got.Properties != want {
				err = fmt.Errorf("it announces %+v", got)
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
	own.properties("region.topology.kubernetes.io=theirs") // another writer
	announced("region.topology.kubernetes.io=eu,tier.example.com=gold")
	r.SetProperties(nil)
	announced("")
}

// overtaken is a Writer that counts the announcements, and lets somebody else write before each of them.
type overtaken struct {
	Writer
	first  func()
	writes atomic.Int32
}

func (w *overtaken) PutLease(ctx context.Context, l *coordinationv1.Lease, unset ...string) error {
	if l.Name == member.Name {
		w.writes.Add(1)
		w.first()
	}
	return w.Writer.PutLease(ctx, l, unset...)
}

// Another writer of the Lease makes a write fail, and causes no error in the log, which would call somebody. What is to
// be announced is announced at the next try, and there is no fight: the writes are bounded.
func TestAnotherWriterOfTheAnnouncement(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	own := &cluster{t: t, Cluster: home.Cluster(t), namespace: p.namespace}
	writer := new(overtaken)
	n, most := 0, 3
	writer.first = func() {
		if n++; n <= most {
			own.announcing(func(a *member.Announcement) {
				a.ID, a.Properties = p.namespace, fmt.Sprintf("theirs.example.com=%d", n)
			})
		}
	}
	var failures atomic.Int32
	r := p.read(t, func(o *Options) {
		writer.Writer, o.Writer, o.Heartbeat = o.Writer, writer, 6*time.Second // a look each second
		o.Log = funcr.New(func(string, string) {}, funcr.Options{RenderBuiltinsHook: func(kvs []any) []any {
			for i, key := range kvs {
				if key == "error" && i%2 == 0 {
					failures.Add(1)
				}
			}
			return kvs
		}})
	})
	r.SetProperties(map[string]string{"tier.example.com": "gold"})
	kube.Eventually(t, "announced", func() error {
		got, err := announcedIn(t, home.Cluster(t), p.namespace)
		if err == nil && got.Properties != "tier.example.com=gold" {
			err = fmt.Errorf("it announces %+v", got)
		}
		return err
	})
	if failures.Load() > 0 || int(writer.writes.Load()) <= most {
		t.Errorf("%d errors in the log, %d writes", failures.Load(), writer.writes.Load())
	}
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
		{there.namespace + strings.Repeat(",x", 64<<10), "-"}, {"all", "10.1.0.1"},
	} {
		before := r.calls(foo)
		there.announcing(func(a *member.Announcement) { a.Limited, a.Exports = step.announced != "all", step.announced })
		r.gives(foo, step.want)
		if step.want != last {
			r.called(foo, before)
		}
		last = step.want
	}
}

// What a cluster exports from is known before anything else of it: until then, a new one announces that it exports nothing,
// and one that has announced something before keeps it.
func TestNamespacesToExportFrom(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.read(t, func(o *Options) { o.ExportsAll = false })
	announces := func(want string) {
		t.Helper()
		kube.Eventually(t, "it exports from "+want, func() error {
			got, err := announcedIn(t, home.Cluster(t), p.namespace)
			if err == nil && (!got.Limited || got.Exports != want || got.ID != p.namespace) {
				err = fmt.Errorf("it announces %+v", got)
			}
			return err
		})
	}
	announces("")
	r.SetExportNamespaces([]string{"data", "shop"})
	announces("data,shop")
	kube.Eventually(t, "that is known here", func() error {
		if !r.Announced("shop") || r.Announced("other") {
			return errors.New("not yet")
		}
		return nil
	})
	r.stop()
	r = p.read(t, func(o *Options) { o.ExportsAll = false })
	<-r.begun
	r.SetProperties(map[string]string{"region.topology.kubernetes.io": "eu"})
	kube.Eventually(t, "the properties", func() error {
		got, err := announcedIn(t, home.Cluster(t), p.namespace)
		if err == nil && got.Properties == "" {
			err = errors.New("there are none")
		}
		return err
	})
	announces("data,shop")
}
