package multicluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/plugin/watch"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// kubeconfig writes a kubeconfig with the address of a closed port on loopback.
func kubeconfig(t *testing.T, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	rewrite(t, path, token)
	return path
}

func rewrite(t *testing.T, path, token string) {
	t.Helper()
	text := fmt.Sprintf(`{clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}], users: [{name: a, user: {token: %q}}],
contexts: [{name: a, context: {cluster: a, user: a}}], current-context: a}`, token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reading is one reading of a Corefile whose blocks use the given kubeconfigs, begun.
func reading(t *testing.T, kubeconfigs ...string) *instance {
	t.Helper()
	i := newInstance()
	for _, path := range kubeconfigs {
		if _, err := i.watch(config{kubeconfig: path}); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.end)
	return i
}

func running(t *testing.T, when string, want float64) {
	t.Helper()
	kube.Eventually(t, fmt.Sprintf("%s there are %v watches", when, want), func() error {
		if got := testutil.ToFloat64(watchesGauge); got != want {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// Blocks that see different imports must not share a watch.
func TestBlocksThatWatchOtherThingsHaveOtherWatches(t *testing.T) {
	i, path := newInstance(), kubeconfig(t, "a")
	seen := map[*sharedWatch]bool{}
	for _, options := range []watch.Options{{}, {Namespaces: []string{"a"}}, {Namespaces: []string{"b"}}, {Labels: "a=b"}, {NoEndpoints: true}} {
		for range 2 {
			s, err := i.watch(config{kubeconfig: path, watch: options})
			if err != nil {
				t.Fatal(err)
			}
			seen[s] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d watches for 5 kinds of block", len(seen))
	}
}

// TestSetup has what the Corefile says arrive where it counts.
func TestSetup(t *testing.T) {
	c := caddy.NewTestController("dns", "multicluster local clusterset.local {\nkubeconfig "+kubeconfig(t, "a")+"\nttl 60\nnegttl 10\nalias k8s.example\ncluster_domain k8s.example\n}")
	if err := setup(c); err != nil {
		t.Fatal(err)
	}
	plugins := dnsserver.GetConfig(c).Plugin
	m := plugins[len(plugins)-1](nil).(*Multicluster)
	for name, want := range map[string]index.Zone{
		"a.clusterset.local.": {Name: "clusterset.local."}, "a.local.": {Name: "local."}, "a.k8s.example.": {Name: "k8s.example.", Alias: true},
	} {
		if z := m.zone(name); z == nil || z.Name != want.Name || z.Alias != want.Alias || z.TTL != 60 || z.NegativeTTL != 10 {
			t.Errorf("%s is in %+v, want %s with the TTLs 60 and 10", name, z, want.Name)
		}
	}
	path := m.AutoPath(request.Request{Req: new(dns.Msg).SetQuestion("foo.default.svc.app.svc.k8s.example.", dns.TypeA)})
	if want := []string{"app.svc.k8s.example.", "svc.k8s.example.", "k8s.example.", "local.", "clusterset.local."}; !slices.Equal(path, want) {
		t.Errorf("the search path is %q, want %q", path, want)
	}
}

func TestWatchesAreSharedAndEnd(t *testing.T) {
	a, b := kubeconfig(t, "a"), kubeconfig(t, "b")
	first := reading(t, a, a, b)
	running(t, "for three blocks that watch two clusters", 2)

	second := reading(t, a)
	first.end()
	running(t, "after a reload that needs one of them", 1)
	for key := range second.watches {
		if second.watches[key] != first.watches[key] {
			t.Error("the reload began a watch anew, and forgot what the one before knew")
		}
	}

	_ = reading(t, a, b)
	_ = second.restartFailed()
	running(t, "after a reload that failed", 1)

	rewrite(t, a, "another token")
	third := reading(t, a)
	for key := range third.watches {
		if second.watches[key] != nil {
			t.Error("another account goes on with the watch of the one before")
		}
	}
	second.end()
	running(t, "after a reload with another account in the same file", 1)
	third.end()
	running(t, "at the end", 0)
}

// behind is an API server that tells a watch with a label selector of the first state of an import, and of the second one when it is
// let go.
func behind(t *testing.T) (kubeconfig string, letGo func()) {
	held, release := context.WithCancel(t.Context())
	event := func(kind string, version, last int, annotations string) string {
		return fmt.Sprintf(`{"type": %q, "object": {"kind": "ServiceImport", "apiVersion": "multicluster.x-k8s.io/v1beta1", "metadata": {"namespace": "default",
"name": "foo", "resourceVersion": "%d", "annotations": {%s}}, "spec": {"type": "ClusterSetIP", "ips": ["10.0.0.%d"]}}}`, kind, version, annotations, last)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("sendInitialEvents") != "true" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		tell := func(text string) {
			_, _ = fmt.Fprintln(w, strings.ReplaceAll(text, "\n", " "))
			w.(http.Flusher).Flush()
		}
		tell(event("ADDED", 10, 1, ""))
		tell(event("BOOKMARK", 10, 1, `"k8s.io/initial-events-end": "true"`))
		if query.Get("labelSelector") != "" {
			<-held.Done()
		}
		tell(event("MODIFIED", 11, 2, ""))
		<-r.Context().Done()
	}))
	t.Cleanup(func() { release(); server.CloseClientConnections(); server.Close() })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`, server.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, release
}

// blocks is one more reading of a Corefile, begun, with a block for each label selector. first are the watches that they answer from at first.
func blocks(t *testing.T, kubeconfig, name string, labels ...string) (all []*blockWatch, first []*sharedWatch) {
	t.Helper()
	i := newInstance()
	for _, selector := range labels {
		b, err := i.block([]string{name}, config{kubeconfig: kubeconfig, watch: watch.Options{Labels: selector, NoEndpoints: true}})
		if err != nil {
			t.Fatal(err)
		}
		all, first = append(all, b), append(first, b.newest())
	}
	if err := i.begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.end)
	return all, first
}

func address(v *watch.View) string {
	if v == nil {
		return "unknown"
	}
	zone := &index.Zone{Name: "clusterset.local."}
	return v.Index.Lookup(zone, "foo.default.svc.clusterset.local.", dns.TypeA, dns.MaxMsgSize).Answer[0].(*dns.A).A.String()
}

func becomes(t *testing.T, v func() *watch.View, want string) {
	t.Helper()
	kube.Eventually(t, "the address", func() error {
		if got := address(v()); got != want {
			return fmt.Errorf("it is %s, not %s", got, want)
		}
		return nil
	})
}

// raise lets the serials of a watch begin at one that is seconds ahead of the clock, and returns it.
func raise(w *blockWatch) uint32 {
	serial := uint32(time.Now().Unix()*64 + 300)
	<-w.After(watch.NewView(index.New(serial), ""))
	return serial
}

// A reload with other options goes over to the new watch when that has got as far as the one before it: otherwise an answer could go
// back to an address of some time ago. A new watch that never gets there is waited for in vain, for five seconds.
func TestAReloadDoesNotGoBack(t *testing.T) {
	for name, never := range map[string]bool{"the new watch gets there": false, "never": true} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, letGo := behind(t)
			all, _ := blocks(t, kubeconfig, ".", "")
			becomes(t, all[0].View, "10.0.0.2")
			serial := raise(all[0])
			all, _ = blocks(t, kubeconfig, ".", "!none")
			after := all[0]
			becomes(t, after.sharedWatch.View, "10.0.0.1")
			asked := 0
			kube.Eventually(t, "asked 20 times, and gone over", func() error {
				over := after.before.Load() == nil
				if got := address(after.View()); got != "10.0.0.2" && (!never || !over) {
					t.Fatalf("the answer went back to %s", got)
				}
				if now := after.View().Index.Serial(); int32(now-serial) < 0 {
					t.Fatalf("the serial went back from %d to %d", serial, now)
				} else {
					serial = now
				}
				if asked++; asked == 20 && !never {
					letGo()
				}
				if !over || asked < 20 {
					return fmt.Errorf("asked %d times", asked)
				}
				return nil
			})
		})
	}
}

// A reload can go over to a watch that runs already, for another block: it is as new, and its serial has to be the larger one, too.
func TestAReloadToARunningWatch(t *testing.T) {
	kubeconfig, letGo := behind(t)
	letGo()
	all, _ := blocks(t, kubeconfig, ".", "")
	running, _ := blocks(t, kubeconfig, "other.", "!none")
	becomes(t, all[0].View, "10.0.0.2")
	becomes(t, running[0].View, "10.0.0.2")
	serial := raise(all[0])
	all, _ = blocks(t, kubeconfig, ".", "!none")
	for over := false; !over; { // no pause: what is wrong is so for some microseconds
		over = all[0].before.Load() == nil
		if now := all[0].View().Index.Serial(); int32(now-serial) < 0 {
			t.Fatalf("the serial went back from %d to %d", serial, now)
		}
	}
}

// A second reload begins with what the block answers from that is still handing over: that must not go over to its own watch, whose
// serial is larger, until the second reload has failed.
func TestAReloadDuringAHandover(t *testing.T) {
	kubeconfig, letGo := behind(t)
	all, _ := blocks(t, kubeconfig, ".", "")
	becomes(t, all[0].View, "10.0.0.2")
	second, _ := blocks(t, kubeconfig, ".", "!none")
	becomes(t, second[0].sharedWatch.View, "10.0.0.1")
	third, first := blocks(t, kubeconfig, ".", "!other")
	if first[0] != all[0].sharedWatch {
		t.Fatal("the third one does not answer from the first watch")
	}
	letGo()
	becomes(t, second[0].sharedWatch.View, "10.0.0.2")
	kube.Eventually(t, "the third one goes over", func() error {
		if second[0].before.Load() == nil {
			t.Fatal("the second one has gone over")
		}
		if third[0].before.Load() != nil {
			return errors.New("not yet")
		}
		return nil
	})
	live.unfollow(holderOf(t, second[0]))
	kube.Eventually(t, "the second one goes over when the third one has failed", func() error {
		if second[0].before.Load() != nil {
			return errors.New("not yet")
		}
		return nil
	})
}

// holderOf is the instance of a block.
func holderOf(t *testing.T, b *blockWatch) *instance {
	t.Helper()
	live.mu.Lock()
	defer live.mu.Unlock()
	for holder := range b.holders {
		return holder
	}
	t.Fatal("no instance has the block")
	return nil
}

// Several server blocks can have the same names: for the plugin *view*, or with other addresses to bind to. After a reload, none of them
// answers what another one knows.
func TestBlocksOfOneNameKeepTheirWatches(t *testing.T) {
	kubeconfig, letGo := behind(t)
	letGo()
	all, _ := blocks(t, kubeconfig, ".", "", "!none")
	becomes(t, all[0].View, "10.0.0.2")
	becomes(t, all[1].View, "10.0.0.2")
	for _, labels := range [][]string{{"", "!none"}, {"!new", "!other"}, {"!none"}} {
		all, first := blocks(t, kubeconfig, ".", labels...)
		for i, b := range all {
			if first[i] != b.sharedWatch {
				t.Errorf("of the blocks with the labels %q, number %d answers from another watch", labels, i)
			}
		}
	}
	one, _ := blocks(t, kubeconfig, "other.", "!none")
	if _, first := blocks(t, kubeconfig, "other.", "!later", "!latest"); first[0] != one[0].sharedWatch || first[1] == one[0].sharedWatch {
		t.Error("of two new blocks, the first one has to answer from the one that was there before, and the second one not")
	}
}

// The server that answers all of a cluster's names gets questions, also where imports can never be listed.
func TestReadyAtTheLatestAfterItsTimeout(t *testing.T) {
	i := reading(t, kubeconfig(t, "ready"))
	before := testutil.ToFloat64(readyTimeouts)
	for _, s := range i.watches {
		late, early := viewHandler(nil, fall.Zero), viewHandler(nil, fall.Zero)
		late.boundReadiness(&blockWatch{sharedWatch: s}, time.Hour, i.ended)
		early.boundReadiness(&blockWatch{sharedWatch: s}, 10*time.Millisecond, i.ended)
		kube.Eventually(t, "ready", func() error {
			if !early.Ready() {
				return errors.New("it is not")
			}
			return nil
		})
		if got, _ := ask(t, early, dns.ClassINET, "foo.default.svc.clusterset.local.", dns.TypeA); got != dns.RcodeServerFailure {
			t.Errorf("a name that is not known is %s", dns.RcodeToString[got])
		}
		// Names outside the cluster, which resolvers complete by its domain, have to resolve as without us.
		if got, _ := ask(t, early, dns.ClassINET, "www.example.org.cluster.local.", dns.TypeA); got != dns.RcodeNameError {
			t.Errorf("a name in a zone of alias is %s", dns.RcodeToString[got])
		}
		if got, _ := ask(t, late, dns.ClassINET, "www.example.org.cluster.local.", dns.TypeA); got != dns.RcodeServerFailure {
			t.Errorf("before the time, a name in a zone of alias is %s", dns.RcodeToString[got])
		}
		if late.Ready() {
			t.Error("ready before its time")
		}
		s.began = time.Now().Add(-2 * time.Hour) // A reload does not begin the time anew.
		late.boundReadiness(&blockWatch{sharedWatch: s}, time.Hour, i.ended)
		kube.Eventually(t, "ready after a reload", func() error {
			if !late.Ready() {
				return errors.New("it is not")
			}
			return nil
		})
	}
	if got := testutil.ToFloat64(readyTimeouts) - before; got != 2 {
		t.Errorf("counted %v, want 2", got)
	}
}
