package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/plugin/index"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var shared = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
	return c.InstallCRDs(ctx, kube.BothVersions)
}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// heard records what a watch says.
type heard struct {
	t          *testing.T
	mu         sync.Mutex
	said       []string
	programmed map[string][]time.Duration // by kind
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

func (h *heard) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.said)
}

func (h *heard) Problems(kind, object string, all []Problem, _ bool) {
	h.say("%s %s %s", kind, object, strings.Join(fields(all), " "))
}
func (h *heard) Failed(resource string, err error) { h.say("failed %s: %v", resource, err) }
func (h *heard) Recovered(resource string)         { h.say("recovered %s", resource) }
func (h *heard) Absent(resource string)            { h.say("absent %s", resource) }
func (h *heard) Published(_, _ int, _ bool)        {}
func (h *heard) Programmed(kind string, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.programmed == nil {
		h.programmed = map[string][]time.Duration{}
	}
	h.programmed[kind] = append(h.programmed[kind], took)
}

// eventually waits until a message with this prefix has arrived.
func (h *heard) eventually(prefix string) {
	h.t.Helper()
	kube.Eventually(h.t, "hear "+prefix, func() error {
		if said := h.all(); !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, prefix) }) {
			return fmt.Errorf("heard %q", said)
		}
		return nil
	})
}

// becomes waits until the messages have these prefixes.
func (h *heard) becomes(want []string) {
	h.t.Helper()
	kube.Eventually(h.t, fmt.Sprintf("hear %q", want), func() error {
		var said []string
		for _, s := range h.all() {
			word, _, _ := strings.Cut(s, " ")
			said = append(said, word)
		}
		if !slices.Equal(said, want) {
			return fmt.Errorf("heard %q", said)
		}
		return nil
	})
}

// start runs a watch until the test's end, and checks that it then ends.
func start(t *testing.T, config *rest.Config, o Options) (*Watch, *heard) {
	t.Helper()
	h := &heard{t: t}
	w, err := New(config, o, h)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w, h
}

var zone = &index.Zone{Name: "clusterset.local.", TTL: 5}

// Index is the newest one, or nil before every resource has synced.
func (w *Watch) Index() *index.Index {
	if v := w.View(); v != nil && v.Whole() {
		return v.Index
	}
	return nil
}

// answers is the addresses that a name below svc.clusterset.local has, or why there are none.
func answers(w *Watch, name string) string {
	x := w.Index()
	if x == nil {
		return "unsynced"
	}
	return indexAnswers(x, name)
}

func indexAnswers(x *index.Index, name string) string {
	a := x.Lookup(zone, name+".svc.clusterset.local.", dns.TypeA, dns.MaxMsgSize)
	if a.Result != index.Success {
		return []string{"", "NoData", "NameError"}[a.Result]
	}
	var ips []string
	for _, rr := range a.Answer {
		ips = append(ips, rr.(*dns.A).A.String())
	}
	return strings.Join(ips, " ")
}

// partialAnswers is the same before every resource has synced.
func partialAnswers(w *Watch, name string) string {
	v := w.View()
	if v == nil {
		return "unsynced"
	}
	if qname := name + ".svc.clusterset.local."; (v.Unknown(zone.Parse(qname)) || v.Unlisted(zone.Parse(qname))) && v.Index.Lookup(zone, qname, dns.TypeA, dns.MaxMsgSize).Result == index.NameError {
		return "unknown"
	}
	return indexAnswers(v.Index, name)
}

func become(t *testing.T, w *Watch, name, want string) {
	t.Helper()
	kube.Eventually(t, name+" is "+want, func() error {
		if got := answers(w, name); got != want {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

func apply(t *testing.T, c *kube.Cluster, namespace, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *kube.Cluster, namespace, text string) {
	t.Helper()
	if err := c.Delete(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
}

// importText is a ClusterSetIP import.
func importText(version, name, ip string) string {
	return fmt.Sprintf(`{apiVersion: multicluster.x-k8s.io/%s, kind: ServiceImport, metadata: {name: %s, labels: {tier: %s}},
spec: {type: ClusterSetIP, ips: [%q], ports: [{name: http, port: 80}]}}`, version, name, name, ip)
}

const headlessImportText = `
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: db}, spec: {type: Headless, ports: []}}
`

const headlessText = headlessImportText + `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-east, labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: east}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], hostname: db-0}, {addresses: [10.1.0.2], conditions: {ready: false}}]
ports: [{name: pg, port: 5432}]
`

func TestAnswersFollowTheObjects(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1"))
	w, _ := start(t, c.Config, Options{})
	become(t, w, "foo."+ns, "10.0.0.1")
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.2"))
	become(t, w, "foo."+ns, "10.0.0.2")
	apply(t, c, ns, headlessText)
	become(t, w, "db-0.east.db."+ns, "10.1.0.1")
	become(t, w, "db."+ns, "10.1.0.1")
	apply(t, c, ns, strings.Replace(headlessText, "conditions: {ready: false}", "hostname: db-1", 1))
	become(t, w, "db."+ns, "10.1.0.1 10.1.0.2")
	remove(t, c, ns, importText("v1beta1", "foo", "10.0.0.2"))
	become(t, w, "foo."+ns, "NameError")
	remove(t, c, ns, headlessText)
	become(t, w, "db."+ns, "NameError")
}

// The time from a change to its answer counts for changes of what is answered, and not for what was there before us.
func TestProgrammingDuration(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1"))
	w, h := start(t, c.Config, Options{Namespaces: []string{ns}})
	become(t, w, "foo."+ns, "10.0.0.1")
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.2"))
	become(t, w, "foo."+ns, "10.0.0.2")
	apply(t, c, ns, strings.Replace(importText("v1beta1", "foo", "10.0.0.2"), "{name: foo,", "{name: foo, annotations: {says: nothing},", 1))
	hourAgo := time.Now().Add(-time.Hour).Format(time.RFC3339Nano)
	apply(t, c, ns, strings.Replace(headlessText, "{name: db-east,", "{name: db-east, annotations: {endpoints.kubernetes.io/last-change-trigger-time: \""+hourAgo+"\"},", 1))
	become(t, w, "db."+ns, "10.1.0.1")

	kube.Eventually(t, "hear of two imports and a slice", func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		imports, slices := h.programmed["ServiceImport"], h.programmed["EndpointSlice"]
		if len(imports) != 2 || len(slices) != 1 || imports[0] > time.Minute || slices[0] < time.Hour || slices[0] > time.Hour+time.Minute {
			return fmt.Errorf("heard %v", h.programmed)
		}
		return nil
	})
}

func TestNamespacesLabelsAndNoEndpointsNarrowTheWatch(t *testing.T) {
	c := shared.Cluster(t)
	in, in2, out := kube.Namespace(t, c), kube.Namespace(t, c), kube.Namespace(t, c)
	for _, ns := range []string{in, in2, out} {
		apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1")+"\n---\n"+importText("v1beta1", "bar", "10.0.0.2")+"\n---"+headlessText)
	}
	all, _ := start(t, c.Config, Options{})
	some, _ := start(t, c.Config, Options{Namespaces: []string{in, in2}})
	web, _ := start(t, c.Config, Options{Labels: "tier=foo"})
	bare, _ := start(t, c.Config, Options{NoEndpoints: true})
	for _, check := range []struct {
		w          *Watch
		name, want string
	}{
		{all, "foo." + in, "10.0.0.1"}, {all, "foo." + out, "10.0.0.1"}, {all, "db." + out, "10.1.0.1"},
		{some, "foo." + in, "10.0.0.1"}, {some, "foo." + in2, "10.0.0.1"}, {some, "db." + in2, "10.1.0.1"}, {some, "foo." + out, "NameError"}, {some, "db." + in, "10.1.0.1"}, {some, "db." + out, "NameError"},
		{web, "foo." + in, "10.0.0.1"}, {web, "bar." + in, "NameError"},
		{bare, "foo." + in, "10.0.0.1"}, {bare, "db." + in, "NameError"}, {bare, "db-0.east.db." + in, "NameError"},
	} {
		become(t, check.w, check.name, check.want)
	}
}

func TestBadObjectsCostOnlyTheirOwnRecords(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	w, h := start(t, c.Config, Options{Namespaces: []string{ns}})
	bad := `
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: bad}, spec: {type: ClusterSetIP, ips: [nonsense, 10.0.0.3], ports: [{port: 0, name: zero}]}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: two.labels}, spec: {type: ClusterSetIP, ports: []}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: lost, labels: {multicluster.kubernetes.io/service-name: good}}, addressType: IPv4, endpoints: [{addresses: [10.1.0.1]}]}
`
	apply(t, c, ns, bad+"\n---\n"+importText("v1beta1", "good", "10.0.0.1"))
	become(t, w, "bad."+ns, "10.0.0.3")
	become(t, w, "good."+ns, "10.0.0.1")
	want := []string{"EndpointSlice " + ns + "/lost cluster", "ServiceImport " + ns + "/bad ip port", "ServiceImport " + ns + "/two.labels name"}
	for _, problem := range want {
		h.eventually(problem)
	}
	// The objects change, and their problems move or stay: nothing is reported again.
	apply(t, c, ns, strings.ReplaceAll(bad, "metadata: {", "metadata: {annotations: {touched: again}, ")+"\n---\n"+importText("v1beta1", "good", "10.0.0.9"))
	apply(t, c, ns, strings.ReplaceAll(bad, "ips: [nonsense, 10.0.0.3], ports: [", "ips: [10.0.0.4, nonsense], ports: [{port: 1, name: one}, "))
	become(t, w, "bad."+ns, "10.0.0.4")
	said := h.all()
	slices.Sort(said)
	if !slices.Equal(said, want) {
		t.Errorf("heard %q, want each problem once: %q", said, want)
	}
}

// A right that is missing is not an empty list: there is no Index, so that the answer is SERVFAIL.
func TestAForbiddenListIsNotEmpty(t *testing.T) {
	c := shared.Cluster(t)
	config, _, err := c.ServiceAccount(t.Context(), kube.Namespace(t, c), "nobody")
	if err != nil {
		t.Fatal(err)
	}
	w, h := start(t, config, Options{})
	h.eventually("failed serviceimports")
	h.eventually("failed endpointslices")
	if w.Index() != nil {
		t.Error("there is an Index though nothing could be listed")
	}
}

func TestOneOfTwoResourcesIsNotSynced(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	config, _, err := c.ServiceAccount(t.Context(), ns, "half")
	if err != nil {
		t.Fatal(err)
	}
	rights := func(resources string) string {
		return fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: half}, rules: [%s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: half}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: half}, subjects: [{kind: ServiceAccount, name: half, namespace: %s}]}
`, resources, ns)
	}
	imports := `{apiGroups: [multicluster.x-k8s.io], resources: [serviceimports], verbs: [list, watch]}`
	apply(t, c, ns, rights(imports)+"\n---\n"+importText("v1beta1", "foo", "10.0.0.1")+"\n---"+headlessText)
	w, h := start(t, config, Options{Namespaces: []string{ns}})
	h.eventually("failed endpointslices")
	if got := answers(w, "foo."+ns); got != "unsynced" {
		t.Errorf("foo is %s before the slices are there", got)
	}
	known := func(name, want string) {
		t.Helper()
		kube.Eventually(t, name+" is "+want, func() error {
			if got := partialAnswers(w, name); got != want {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	known("foo."+ns, "10.0.0.1")
	known("db."+ns, "unknown")
	known("db-0.east.db."+ns, "unknown")
	known("none."+ns, "NameError")
	// Imports come, change and go as they always do.
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.2")+"\n---\n"+strings.ReplaceAll(headlessImportText, "name: db", "name: db2"))
	known("foo."+ns, "10.0.0.2")
	known("db2."+ns, "unknown")
	remove(t, c, ns, strings.ReplaceAll(headlessImportText, "name: db", "name: db2"))
	known("db2."+ns, "NameError")
	apply(t, c, ns, rights(imports+`, {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}`))
	become(t, w, "foo."+ns, "10.0.0.2")
	become(t, w, "db."+ns, "10.1.0.1")
	h.eventually("recovered endpointslices")
	select {
	case <-w.Synced():
	default:
		t.Error("not synced")
	}
}

// One namespace that cannot be read costs no name of another one, nor does one whose EndpointSlices cannot.
func TestOneOfTwoNamespacesIsNotListed(t *testing.T) {
	c := shared.Cluster(t)
	open, closed := kube.Namespace(t, c), kube.Namespace(t, c)
	config, _, err := c.ServiceAccount(t.Context(), open, "half")
	if err != nil {
		t.Fatal(err)
	}
	give := func(ns, resources string) {
		t.Helper()
		apply(t, c, ns, fmt.Sprintf(`
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: half}, rules: [{apiGroups: [multicluster.x-k8s.io, discovery.k8s.io], resources: [%s], verbs: [list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: half}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: half}, subjects: [{kind: ServiceAccount, name: half, namespace: %s}]}
`, resources, open))
	}
	for _, ns := range []string{open, closed} {
		apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1")+"\n---"+headlessText)
	}
	give(open, "serviceimports, endpointslices")
	w, h := start(t, config, Options{Namespaces: []string{open, closed}})
	h.eventually("failed serviceimports in namespace " + closed)
	known := func(name, want string) {
		t.Helper()
		kube.Eventually(t, name+" is "+want, func() error {
			if got := partialAnswers(w, name); got != want {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
	}
	for name, want := range map[string]string{"foo." + open: "10.0.0.1", "db." + open: "10.1.0.1", "none." + open: "NameError"} {
		known(name, want)
	}
	known("foo."+closed, "unknown")
	known(closed, "unknown")
	apply(t, c, open, importText("v1beta1", "foo", "10.0.0.2"))
	known("foo."+open, "10.0.0.2")
	give(closed, "serviceimports")
	known("foo."+closed, "10.0.0.1")
	known("db."+closed, "unknown")
	apply(t, c, open, strings.ReplaceAll(headlessImportText, "name: db", "name: empty"))
	known("empty."+open, "NameError") // its EndpointSlices are known: there are none
	give(closed, "serviceimports, endpointslices")
	become(t, w, "db."+closed, "10.1.0.1")
	become(t, w, "foo."+open, "10.0.0.2")
}

// Absent is not empty, and absent CRDs are: they come late, change their versions and go, without a restart.
func TestCRDsComeChangeAndGo(t *testing.T) {
	c := shared.Cluster(t)
	withoutCRDs(t, c)
	install := func(form kube.CRDs) {
		t.Helper()
		if err := c.InstallCRDs(t.Context(), form); err != nil {
			t.Fatal(err)
		}
	}
	w, h := start(t, c.Config, Options{})
	h.eventually("absent serviceimports")
	become(t, w, "foo.default", "NameError") // synced: a cluster without the CRD keeps its DNS

	install(kube.OldKarmada)
	apply(t, c, "default", importText("v1alpha1", "foo", "10.0.0.1"))
	become(t, w, "foo.default", "10.0.0.1")

	apply(t, c, "default", importText("v1alpha1", "canary", "10.0.0.2"))
	become(t, w, "canary.default", "10.0.0.2")
	never := watchFor(t, w, "foo.default", "10.0.0.1")
	install(kube.BothVersions)
	install(kube.OnlyV1Beta1)
	apply(t, c, "default", importText("v1beta1", "canary", "10.0.0.3"))
	become(t, w, "canary.default", "10.0.0.3")
	if got := never(); got != "" {
		t.Errorf("foo was %s while the versions changed", got)
	}

	if err := c.RemoveCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	become(t, w, "foo.default", "NameError")
	install(kube.BothVersions)
	apply(t, c, "default", importText("v1beta1", "foo", "10.0.0.4"))
	become(t, w, "foo.default", "10.0.0.4")
}

// withoutCRDs removes the CRDs with their objects, and brings them back at the end of the test.
func withoutCRDs(t *testing.T, c *kube.Cluster) {
	t.Helper()
	if err := c.RemoveCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.RemoveCRDs(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := c.InstallCRDs(context.WithoutCancel(t.Context()), kube.BothVersions); err != nil {
			t.Error(err)
		}
	})
}

// watchFor looks at a name repeatedly until it is stopped. It then returns what it saw besides
// want.
func watchFor(t *testing.T, w *Watch, name, want string) (stop func() string) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan string, 1)
	go func() {
		for ctx.Err() == nil {
			if got := answers(w, name); got != want {
				seen <- got
				return
			}
		}
		seen <- ""
	}()
	return func() string {
		cancel()
		return <-seen
	}
}

func TestAnOutageKeepsTheLastAnswers(t *testing.T) {
	c := shared.Cluster(t)
	ns := kube.Namespace(t, c)
	apply(t, c, ns, importText("v1beta1", "foo", "10.0.0.1")+"\n---"+headlessText)
	w, h := start(t, c.Config, Options{})
	become(t, w, "foo."+ns, "10.0.0.1")
	become(t, w, "db."+ns, "10.1.0.1")
	never := watchFor(t, w, "foo."+ns, "10.0.0.1")
	for range 2 {
		c.StopAPIServer()
		h.eventually("failed serviceimports")
		h.eventually("failed endpointslices")
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.eventually("recovered serviceimports")
	}
	apply(t, c, ns, importText("v1beta1", "canary", "10.0.0.2"))
	become(t, w, "canary."+ns, "10.0.0.2")
	if got := never(); got != "" {
		t.Errorf("foo was %s in the outage", got)
	}
	become(t, w, "db."+ns, "10.1.0.1")
}

// A 404 alone proves nothing: a proxy returns it for a server that it does not find, and the
// discovery client treats a refused list of groups as an empty one (cilium#47793).
func TestA404WithoutDiscoveryIsNotAbsence(t *testing.T) {
	for name, code := range map[string]int{"not found": http.StatusNotFound, "forbidden": http.StatusForbidden, "broken": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/apis/") {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				w.WriteHeader(code)
			}))
			t.Cleanup(server.Close)
			w, h := start(t, &rest.Config{Host: server.URL}, Options{NoEndpoints: true})
			h.eventually("failed serviceimports")
			if w.Index() != nil {
				t.Error("there is an Index")
			}
		})
	}
}

func TestEachOutageWithoutTheCRDIsReported(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case away.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/apis":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}]}]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	w, h := start(t, &rest.Config{Host: server.URL}, Options{NoEndpoints: true})
	want := []string{"absent"}
	h.becomes(want)
	for range 2 {
		away.Store(true)
		want = append(want, "failed")
		h.becomes(want)
		away.Store(false)
		want = append(want, "absent")
		h.becomes(want)
	}
	if got := answers(w, "foo.default"); got != "NameError" {
		t.Errorf("without the CRD a name is %s", got)
	}
}

// Compression of a first list costs the API server more than its network.
func TestNoAnswerIsCompressed(t *testing.T) {
	var asked, compressed atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Accept-Encoding") == "gzip" {
			compressed.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	_, h := start(t, &rest.Config{Host: server.URL}, Options{})
	h.eventually("failed serviceimports")
	if asked.Load() == 0 || compressed.Load() > 0 {
		t.Errorf("%d of %d answers may be compressed, want none", compressed.Load(), asked.Load())
	}
}

func TestStrangeServerReportsNothing(t *testing.T) {
	w, h := start(t, &rest.Config{Host: "https://127.0.0.1:1"}, Options{})
	h.eventually("failed serviceimports")
	if w.Index() != nil {
		t.Error("there is an Index of a server that was not reached")
	}
}

func TestNewRefusesAConfigurationThatCannotWork(t *testing.T) {
	if _, err := New(&rest.Config{Host: "://"}, Options{}, &heard{t: t}); err == nil {
		t.Error("no error")
	}
}

func TestLoadConfig(t *testing.T) {
	c := shared.Cluster(t)
	if got, err := LoadConfig(c.Kubeconfig, ""); err != nil || got.Host != c.Config.Host {
		t.Errorf("got %v, %v; want %s", got, err, c.Config.Host)
	}
	if _, err := LoadConfig(c.Kubeconfig, "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("got %v, want an error that names the context", err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := LoadConfig("", ""); err == nil || errors.Is(err, rest.ErrNotInCluster) || !strings.Contains(err.Error(), "kubeconfig FILE") {
		t.Errorf("got %v, want an error that contains what to do", err)
	}
}
