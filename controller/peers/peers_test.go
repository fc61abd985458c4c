package peers

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

func TestAPeerJoinsChangesAndLeaves(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	<-r.Settled()
	r.says(foo, "")

	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	r.says(foo, there.id)
	peers := r.Snapshot(foo).Active
	m := peers[0]
	if !m.Exports() || m.Service.Type != mcsv1beta1.ClusterSetIP || len(m.Service.Ports) != 1 || m.Service.Ports[0].Port != 80 || m.Export.Created.IsZero() {
		t.Errorf("foo is %+v, exported %+v", m.Service, m.Export)
	}
	if got := addresses(m); !slices.Equal(got, []string{"10.1.0.1"}) {
		t.Errorf("the endpoints of foo are %v", got)
	}
	if names := r.Names(there.namespace); !slices.Equal(names, []types.NamespacedName{foo}) || len(r.Names("elsewhere")) > 0 {
		t.Errorf("the names are %v, and %v elsewhere", names, r.Names("elsewhere"))
	}
	if got := testutil.ToFloat64(peerConnected.WithLabelValues(there.id)); got != 1 {
		t.Errorf("the metric is %v of a connected peer", got)
	}
	r.measures(there.id, Connected)

	// The same data through a new connection: nothing differs, and no callback runs.
	before := r.calls(foo)
	again := kubeconfig(t, there.config, func(c *api.Cluster, _ *api.AuthInfo) { c.TLSServerName = "127.0.0.1" })
	r.join(there.id, again)
	there.export("v1beta1", "bar")
	r.says(there.name("bar"), there.id) // by the new connection or the old one
	r.is(there.id, Connected)
	if got := r.calls(foo); got != before {
		t.Errorf("called %d times more without a change", got-before)
	}

	// An invalid token, then a new one in the same Secret, as `kubectl multicluster join` writes it: the data
	// that was read stays meanwhile.
	r.join(there.id, kubeconfig(t, there.config, func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "taken-back" }))
	r.is(there.id, Unauthorized, "join the peer again")
	r.says(foo, there.id)
	r.join(there.id, again)
	r.is(there.id, Connected)
	there.export("v1beta1", "baz")
	r.says(there.name("baz"), there.id)
	if got := r.calls(foo); got != before {
		t.Errorf("called %d times more without a change", got-before)
	}

	r.leave(there.id)
	r.says(foo, "")
	r.leaseGoes(there.id)
	r.called(foo, before) // it left
}

func TestChangesAreCalledByName(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	there.export("v1beta1", "other")
	foo, other, private := there.name("foo"), there.name("other"), there.name("private")
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.says(foo, there.id)
	r.says(other, there.id)
	r.is(there.id, Connected)
	touch := func(address string, port int32, label string) {
		for _, change := range []struct {
			what, text string
			seen       func(merge.Member) bool
		}{
			{"an endpoint", there.slice("foo", address, there.id), func(m merge.Member) bool { return slices.Equal(addresses(m), []string{address}) }},
			{"a port", strings.Replace(there.slice("foo", address, there.id), `"port":80`, fmt.Sprintf(`"port":%d`, port), 1), func(m merge.Member) bool { return m.Service.Ports[0].Port == port }},
			{"an exported label", fmt.Sprintf("apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: foo}\nspec: {exportedLabels: {a: %s}}", label), func(m merge.Member) bool { return m.Export.Labels["a"] == label }},
		} {
			before := r.calls(foo)
			applyTo(t, there.Cluster, there.namespace, change.text)
			kube.Eventually(t, change.what+" is seen", func() error {
				peers := r.Snapshot(foo).Active
				if len(peers) != 1 || !change.seen(peers[0]) || r.calls(foo) == before {
					return fmt.Errorf("%d calls, %+v", r.calls(foo)-before, peers)
				}
				return nil
			})
		}
	}
	// A follower calls for its first list before it reads a change. So no call for that list comes after this.
	touch("10.1.0.9", 82, "c")
	untouched := r.calls(other)
	touch("10.1.0.2", 81, "b")

	// Changes of trimmed fields have no effect. Neither have slices
	// of other controllers, or FQDN endpoints. The last of these objects is followed by one that is
	// read.
	before := r.calls(foo)
	applyTo(t, there.Cluster, there.namespace, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: foo, annotations: {x: "z"}}
spec: {exportedLabels: {a: b}}
---`+there.slice("private", "10.1.0.9", "another")+`
---`+strings.NewReplacer("addressType: IPv4", "addressType: FQDN", "10.1.0.9", "example.com", "private-slice", "named").Replace(there.slice("private", "10.1.0.9", there.id))+`
---`+strings.NewReplacer("kind: Pod, name: p", "kind: Pod, name: q", `"port":80`, `"port":81`).Replace(there.slice("foo", "10.1.0.2", there.id))+`
---`+strings.ReplaceAll(there.slice("last", "10.1.0.2", there.id), "multicluster-controller", "another-controller")+`
---`+there.slice("seen", "10.1.0.3", there.id))
	r.says(there.name("seen"), there.id)
	applyTo(t, there.Cluster, there.namespace, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: late}")
	r.says(there.name("late"), there.id)
	if r.calls(foo) != before || r.calls(private) != 0 || r.calls(there.name("last")) != 0 {
		t.Errorf("%d calls for trimmed fields, %d for Services that are not exported", r.calls(foo)-before, r.calls(private))
	}
	if r.calls(other) != untouched {
		t.Error("called for a name that did not change")
	}

	there.unexport("v1beta1", "foo")
	remove(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.2", there.id))
	r.says(foo, "")
}

func TestTheOwnIDIsAnnounced(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.read(t)
	kube.Eventually(t, "the own id is announced (C51)", r.announcesItsID)
	(&cluster{t: t, Cluster: home.Cluster(t), namespace: p.namespace}).announce("") // somebody deletes the Lease
	kube.Eventually(t, "and again after it was deleted", r.announcesItsID)
}

// TestEachReason runs one peer for each failure and one peer that works. Each has the expected
// condition, and no failure affects another peer.
func TestEachReason(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	good := newCluster(t, &east, "own")
	clash := newCluster(t, &east, p.namespace) // announces the ID of the reader
	good.export("v1beta1", "foo")
	r := p.read(t)
	long := strings.Repeat("a", 64)
	blind := strings.Repeat("b", 12)
	applyTo(t, good.Cluster, "", fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\n"+
		"rules: [{apiGroups: [multicluster.x-k8s.io, discovery.k8s.io], resources: ['*'], verbs: [list, watch]}, {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list]}]", blind))
	half := account(t, good.Cluster, kube.Namespace(t, good.Cluster), blind)

	r.join(good.id, kubeconfig(t, good.config))
	r.is(good.id, Connected) // the first peer of this cluster
	for id, c := range map[string]struct {
		kubeconfig []byte
		reason     string
		words      []string
	}{
		long:        {kubeconfig(t, good.config), InvalidID, []string{"63", "--cluster-id"}},
		p.namespace: {kubeconfig(t, good.config), DuplicateID, []string{"this cluster", "--cluster-id"}},
		"self":      {kubeconfig(t, home.Cluster(t).Config), DuplicateCluster, []string{"this cluster itself"}},
		"second":    {kubeconfig(t, good.config), DuplicateCluster, []string{good.id, "delete"}},
		"nothing":   {nil, InvalidKubeconfig, []string{kubeconfigKey}},
		"garbage":   {[]byte("garbage"), InvalidKubeconfig, nil},
		"program": {kubeconfig(t, good.config, func(_ *api.Cluster, u *api.AuthInfo) {
			u.Exec = &api.ExecConfig{Command: "true", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
		}), InvalidKubeconfig, []string{"exec"}},
		"expired":  {kubeconfig(t, good.config, func(_ *api.Cluster, u *api.AuthInfo) { u.Token = "x" }), Unauthorized, []string{"join"}},
		"half":     {kubeconfig(t, half), Forbidden, []string{"watch", "leases", "deploy/peer"}},
		"stranger": {kubeconfig(t, newStranger(t)), Forbidden, []string{"list", "serviceexports"}},
		"nowhere":  {kubeconfig(t, good.config, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" }), Unreachable, []string{"127.0.0.1:1"}},
		"untrusted": {kubeconfig(t, good.config, func(c *api.Cluster, _ *api.AuthInfo) {
			c.CertificateAuthorityData = home.Cluster(t).Config.CAData
		}), Unreachable, []string{"certificate"}},
	} {
		r.join(id, c.kubeconfig)
		r.is(id, c.reason, c.words...)
		kube.Eventually(t, "an event on "+id, func() error {
			if got := r.told(id); len(got) == 0 || got[len(got)-1] != c.reason {
				return fmt.Errorf("events %v", got)
			}
			return nil
		})
		if got := testutil.ToFloat64(peerConnected.WithLabelValues(id)); got != 0 {
			t.Errorf("the metric of %s is %v", id, got)
		}
		r.measures(id, c.reason)
		r.is(good.id, Connected)
		r.leave(id)
	}
	r.leave(good.id) // the same API server
	r.join("other", kubeconfig(t, clash.config))
	r.is("other", DuplicateID, p.namespace, "--cluster-id")
	clash.announce("moved-" + clash.namespace)
	r.is("other", WrongID, "--cluster-id", "moved-"+clash.namespace)
	clash.announce("")
	r.is("other", NoController, clash.namespace, member.Name)
}

// A list of many announced IDs does not remove the advice from the message.
func TestMessagesListSomeIDs(t *testing.T) {
	ids := make([]string, 0, 100)
	for i := range 100 {
		ids = append(ids, fmt.Sprint(strings.Repeat("x", 60), i))
	}
	if got := someOf(ids[:2]); got != ids[0]+" and "+ids[1] {
		t.Errorf("two are %q", got)
	}
	if got := someOf(ids); !strings.HasSuffix(got, ids[9]+" and 90 more") || len(got) > maxMessage-200 {
		t.Errorf("a hundred are %q", got)
	}
}

func newStranger(t *testing.T) *rest.Config {
	t.Helper()
	c := east.Cluster(t)
	config, _, err := c.ServiceAccount(t.Context(), kube.Namespace(t, c), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestTheCRDOfAPeer installs the CRD of a peer in one version, removes it, and installs both
// versions. Absent is not empty.
func TestTheCRDOfAPeer(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &west, "")
	id := there.namespace
	foo := there.name("foo")
	r := newPlace(t).read(t)
	r.join(id, kubeconfig(t, there.config))
	r.is(id, NoCRD, "install")
	if err := there.InstallCRDs(t.Context(), kube.OnlyV1Alpha1); err != nil {
		t.Fatal(err)
	}
	r.is(id, NoController, there.namespace+"/"+member.Name)
	r.says(foo, "?"+id)
	there.id = id
	there.announce(id)
	r.is(id, Connected)
	there.export("v1alpha1", "foo")
	kube.Eventually(t, "all of foo", func() error {
		if peers := r.Snapshot(foo).Active; len(peers) != 1 || !peers[0].Exports() || len(peers[0].Slices) != 1 {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})

	calls := r.calls(foo)
	if err := there.RemoveCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.is(id, NoCRD)
	if peers := r.Snapshot(foo).Active; len(peers) != 1 || len(peers[0].Slices) != 1 || r.calls(foo) > calls+1 {
		t.Errorf("%d calls, and foo is %+v, while its CRD is away", r.calls(foo)-calls, peers)
	}
	if err := there.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	r.is(id, Connected)
	// The exports were deleted with their CRD: the peer now has no export.
	kube.Eventually(t, "no export", func() error {
		peers := r.Snapshot(foo).Active
		if len(peers) != 1 || peers[0].Export != nil {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})
	there.export("v1beta1", "foo")
	kube.Eventually(t, "an export", func() error {
		if peers := r.Snapshot(foo).Active; len(peers) != 1 || peers[0].Export == nil {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})
	if got := r.told(id); !slices.Equal(got, []string{NoCRD, NoController, Connected, NoCRD, Connected}) {
		t.Errorf("events %v", got)
	}
}

// One export that no Go type can represent must not hide the others, neither in a list nor in a
// watch.
func TestAnExportThatCannotBeDecodedCostsNoOther(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	odd := func() {
		t.Helper()
		exports := dynamic.NewForConfigOrDie(there.Config).Resource(mcs.Versions[0].WithResource(mcsv1beta1.ServiceExportPluralName)).Namespace(there.namespace)
		patch := []byte(`{"status": {"conditions": [{"type": "Valid", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2020-01-01t00:00:00z"}]}}`)
		if _, err := exports.Patch(t.Context(), "foo", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.says(there.name("foo"), there.id)
	odd() // in a watch
	there.export("v1beta1", "bar")
	r.says(there.name("bar"), there.id)
	r.is(there.id, Connected)
	// In a list.
	r.join(there.id, there.reading("multicluster-peer"))
	there.export("v1beta1", "baz")
	r.says(there.name("baz"), there.id)
	r.is(there.id, Connected)
	kube.Eventually(t, "foo is exported", func() error {
		if peers := r.Snapshot(there.name("foo")).Active; len(peers) != 1 || !peers[0].Exports() {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})
}

// away returns a peer behind a proxy that can interrupt the connection.
func away(t *testing.T) (*cluster, *faultproxy.Proxy, []byte) {
	t.Helper()
	there := newCluster(t, &east, "own")
	p, err := faultproxy.Listen(strings.TrimPrefix(there.config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return there, p, kubeconfig(t, there.config, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://" + p.Address() })
}

func refuse(t *testing.T, p *faultproxy.Proxy) (resume func()) {
	t.Helper()
	again, err := p.Refuse()
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := again(); err != nil {
			t.Fatal(err)
		}
	}
}

func timeout(d time.Duration) func(*Options) { return func(o *Options) { o.Timeout = d } }

func TestAnUnreachablePeerCountsUntilItsTimeRunsOut(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t, timeout(time.Minute))
	r.join(there.id, config)
	r.says(foo, there.id)
	r.is(there.id, Connected)

	resume := refuse(t, way)
	r.is(there.id, Unreachable)
	if got := r.said(foo); got != there.id {
		t.Errorf("foo is reported by %q of a peer that was lost a moment ago", got)
	}
	calls := r.calls(foo)
	r.clock.forward(time.Minute)
	r.says(foo, "")
	r.called(foo, calls)
	if r.calls(foo) != calls+1 {
		t.Errorf("%d calls when its time ran out", r.calls(foo)-calls)
	}

	applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.7", there.id))
	resume()
	r.says(foo, there.id) // at once, the first time
	kube.Eventually(t, "what happened meanwhile", func() error {
		if peers := r.Snapshot(foo).Active; len(peers) != 1 || !slices.Equal(addresses(peers[0]), []string{"10.1.0.7"}) {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})
	r.is(there.id, Connected)
	l, err := r.leaseOf(there.id)
	if err != nil {
		t.Fatal(err)
	}
	if *l.Spec.LeaseTransitions != 1 || *l.Spec.LeaseDurationSeconds != 60 || l.Spec.RenewTime == nil {
		t.Errorf("the Lease is %+v", l.Spec)
	}

	// The second time, the peer has to stay connected first.
	resume = refuse(t, way)
	r.is(there.id, Unreachable)
	r.clock.forward(time.Minute)
	r.says(foo, "")
	resume()
	r.is(there.id, Connected, "2 times", "if it stays")
	// A restart does not make it count either.
	events := r.told(there.id)
	r.stop()
	ahead := r.clock
	r = place.read(t, timeout(time.Minute), func(o *Options) { o.Now = ahead.now })
	r.clock = ahead
	<-r.Settled()
	r.is(there.id, Connected, "2 times", "if it stays")
	if got := r.said(foo); got != "" {
		t.Errorf("foo is reported by %q, a peer that has come back twice", got)
	}
	r.clock.forward(30 * time.Second)
	r.says(foo, there.id)
	if !slices.Equal(events, []string{Connected, Unreachable, Connected, Unreachable, Connected}) || len(r.told(there.id)) > 0 {
		t.Errorf("events %v, and after a restart %v", events, r.told(there.id))
	}
}

// TestFaultyAnswersRemoveNothing checks that faulty answers of a server do not change the data of
// the peer.
func TestFaultyAnswersRemoveNothing(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	api, err := faultproxy.Before(there.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := api.Kubeconfig(there.config)
	if err != nil {
		t.Fatal(err)
	}
	r := newPlace(t).read(t)
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.says(foo, there.id)
	calls, told := r.calls(foo), []string{Connected}
	exports := schema.GroupResource{Group: mcsv1beta1.GroupName, Resource: mcsv1beta1.ServiceExportPluralName}
	for _, c := range []struct {
		reason  string
		disturb func() (resume func())
	}{
		{Unreachable, func() func() { return api.Answer(apierrors.NewInternalError(errors.New("broken"))) }},
		{Unauthorized, func() func() { return api.Answer(apierrors.NewUnauthorized("expired")) }},
		{Forbidden, func() func() {
			return api.Answer(apierrors.NewForbidden(exports, "", errors.New("no")), exports.Resource)
		}},
		{NoCRD, func() func() { return api.Answer(apierrors.NewNotFound(exports, ""), exports.Resource) }},
		{Unreachable, func() func() { return api.Answer(apierrors.NewInternalError(errors.New("broken")), "endpointslices") }},
		{Unreachable, func() func() { return api.Hollow() }},
	} {
		resume := c.disturb()
		api.Cut() // otherwise the watches continue
		r.is(there.id, c.reason)
		resume()
		r.is(there.id, Connected)
		told = append(told, c.reason, Connected)
	}
	// A busy API server is not silent.
	resume, replies := api.Answer(apierrors.NewTooManyRequests("busy", 1)), api.Replies()
	api.Cut()
	kube.Eventually(t, "each resource is refused", func() error {
		if got := api.Replies() - replies; got < 2*int(resources) {
			return fmt.Errorf("%d requests are refused", got)
		}
		return nil
	})
	r.is(there.id, Connected)
	r.clock.forward(2 * staleAfter)
	r.is(there.id, Stale, "too many requests", "Priority and Fairness")
	if said := r.said(foo); said != there.id {
		t.Errorf("foo is reported by %q of a busy API server", said)
	}
	resume()
	r.is(there.id, Connected)
	told = append(told, Stale, Connected)
	// A peer is connected after its lists, a moment before its watches start.
	kube.Eventually(t, "a watch expires", func() error {
		if api.Expire() == 0 {
			return errors.New("there is no watch")
		}
		return nil
	})
	applyTo(t, there.Cluster, there.namespace, there.slice("bar", "10.1.0.1", there.id))
	r.says(there.name("bar"), there.id)
	r.is(there.id, Connected)
	if got := r.calls(foo) - calls; got != 0 || r.said(foo) != there.id {
		t.Errorf("%d calls, and foo is reported by %q, while nothing changed", got, r.said(foo))
	}
	// A cut connection can interrupt a request, which is Unreachable too.
	if got := r.told(there.id); !slices.Equal(without(got, Unreachable), without(told, Unreachable)) || len(got) < len(told) {
		t.Errorf("events %v; want %v", got, told)
	}
}

// without removes a reason, and then repeated neighbours.
func without(told []string, reason string) []string {
	left := slices.DeleteFunc(slices.Clone(told), func(s string) bool { return s == reason })
	return slices.Compact(left)
}

// TestAHalfOpenConnectionIsNoticed checks that a connection without any data is detected long
// before HTTP/2 detects it.
func TestAHalfOpenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	r.join(there.id, config)
	r.says(foo, there.id)
	r.is(there.id, Connected)
	if way.Strand() == 0 {
		t.Fatal("there is no connection")
	}
	began := time.Now()
	applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.8", there.id))
	kube.Eventually(t, "the change is seen", func() error {
		if peers := r.Snapshot(foo).Active; len(peers) != 1 || !slices.Equal(addresses(peers[0]), []string{"10.1.0.8"}) {
			return fmt.Errorf("%+v", peers)
		}
		return nil
	})
	if took := time.Since(began); took > 12*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestPeerWithoutTimeoutStaysForever(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t)
	r.join(there.id, config)
	r.says(foo, there.id)
	r.is(there.id, Connected)
	refuse(t, way)
	r.is(there.id, Unreachable)
	r.clock.forward(10000 * time.Hour)
	calls := r.calls(foo)
	r.leave(there.id)
	r.join("nowhere", config) // followed by a visible change
	r.is("nowhere", Unreachable)
	r.called(foo, calls)
	if r.calls(foo) != calls+1 {
		t.Errorf("%d calls; want that of its leaving", r.calls(foo)-calls)
	}
	r.clock.forward(10000 * time.Hour)
	r.stop()
	again := place.read(t)
	<-again.Settled()
	again.says(foo, "?nowhere")
}

// TestARestartWithAPeerAway checks that a peer is unknown until its Lease has expired, counted from
// the last moment when it was connected.
func TestARestartWithAPeerAway(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t, timeout(time.Hour))
	r.join(there.id, config)
	r.says(foo, there.id)
	r.is(there.id, Connected)
	r.stop()

	// The peer was connected when the Registry stopped: the time since then does not count.
	resume := refuse(t, way)
	r = place.read(t, timeout(time.Hour), func(o *Options) { o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) } })
	<-r.Settled()
	r.says(foo, "?"+there.id)
	r.is(there.id, Unreachable)
	r.stop()

	r = place.read(t, timeout(time.Hour))
	r.clock.forward(3*time.Hour - 10*time.Minute)
	<-r.Settled()
	r.says(foo, "?"+there.id)
	standings := func() int { r.mu.Lock(); defer r.mu.Unlock(); return r.standings[there.id] }
	before := standings()
	r.clock.forward(11 * time.Minute)
	r.notifyAll()
	r.says(foo, "")
	kube.Eventually(t, "names with exports of the peer are reported", func() error {
		if standings() == before {
			return errors.New("not yet")
		}
		return nil
	})
	resume()
	r.says(foo, there.id)
	r.stop()

	// A peer whose Secret was deleted while no controller ran leaves no Lease either, after a
	// while.
	r.leave(there.id)
	r = place.read(t)
	<-r.Settled()
	r.clock.forward(restoreGrace)
	r.notifyAll()
	r.leaseGoes(there.id)
	r.says(foo, "")
}

func TestRestartRepeatsNoEvent(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	place := newPlace(t)
	r := place.read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	r.stop()
	r = place.read(t)
	<-r.Settled()
	r.says(there.name("foo"), there.id)
	r.is(there.id, Connected)
	if got := r.told(there.id); len(got) > 0 {
		t.Errorf("events %v", got)
	}
}

// TestSettledDoesNotWaitForSilentPeers checks that Settled does not wait for a peer that
// fails, and waits only for a limited time for a peer that does not answer.
func TestSettledDoesNotWaitForSilentPeers(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	place := newPlace(t)
	r := place.read(t)
	<-r.Settled()
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.join("nowhere", kubeconfig(t, there.config, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" }))
	r.is("nowhere", Unreachable)
	r.stop()

	r = place.read(t)
	<-r.Settled()
	if got := r.said(there.name("foo")); got != there.id+" ?nowhere" {
		t.Errorf("foo is reported by %q when all is settled", got)
	}
	r.stop()

	t.Cleanup(sync.OnceFunc(way.Stall()))
	began := time.Now()
	r = place.read(t)
	<-r.Settled()
	if took := time.Since(began); took > 2*settleWithin {
		t.Errorf("settled after %v", took)
	}
	if got := r.said(there.name("foo")); got != "?nowhere ?"+there.id {
		t.Errorf("foo is reported by %q of a peer that does not answer", got)
	}
}

// TestAForeignLeaseIsLeftAlone checks a Lease such as that of the leader election, which is in the
// same namespace. It does not decide whether the peer is read.
func TestAForeignLeaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	r := newPlace(t).read(t)
	applyTo(t, home.Cluster(t), r.namespace, "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: "+there.id+"}\nspec: {holderIdentity: another}")
	r.join(there.id, kubeconfig(t, there.config))
	kube.Eventually(t, "an event", func() error {
		if got := r.told(there.id); !slices.Contains(got, "LeaseNotWritten") || !slices.Contains(got, Connected) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	r.says(there.name("foo"), there.id)
	r.leave(there.id)
	r.says(there.name("foo"), "")
	r.join("nothing", nil) // followed by a visible change
	r.is("nothing", InvalidKubeconfig)
	r.stop()
	l, err := r.leaseOf(there.id)
	if err != nil || *l.Spec.HolderIdentity != "another" || len(l.Labels) > 0 {
		t.Errorf("the Lease is %+v, %v", l, err)
	}
}

// TestPeersLeaveNothingRunning is not parallel, because it counts goroutines.
func TestPeersLeaveNothingRunning(t *testing.T) {
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	<-r.Settled()
	cycle := func(config []byte, said string) {
		r.join(there.id, config)
		r.says(foo, said)
		r.leave(there.id)
		r.says(foo, "")
	}
	good := kubeconfig(t, there.config)
	bad := kubeconfig(t, there.config, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://127.0.0.1:1" })
	quiet := func() int {
		kube.Eventually(t, "all of the peer has ended", func() error {
			r.Registry.mu.RLock()
			defer r.Registry.mu.RUnlock()
			for id, ended := range r.leaving {
				select {
				case <-ended:
				default:
					return fmt.Errorf("%s has not", id)
				}
			}
			return nil
		})
		return runtime.NumGoroutine()
	}
	cycle(good, there.id)
	before := quiet()
	for range 10 {
		cycle(good, there.id)
		cycle(bad, "?"+there.id)
	}
	quiet()
	kube.Eventually(t, "as few goroutines as before", func() error {
		// The 3 are goroutines of the test's own client and of HTTP/2, which start and stop at any
		// time.
		if n := runtime.NumGoroutine(); n > before+3 {
			return fmt.Errorf("%d; there were %d", n, before)
		}
		return nil
	})
	if got := slices.Collect(maps.Keys(r.peers)); len(got) > 0 {
		t.Errorf("peers %v", got)
	}
}
