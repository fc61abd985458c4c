package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

// External Secrets, Argo CD and Helm delete a Secret and create it again. That is an update.
func TestRecreatedSecretCostsNothing(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo, bar := there.name("foo"), there.name("bar")
	r := newPlace(t).read(t)
	<-r.Settled()
	config := kubeconfig(t, there.config)
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.says(foo, there.id)
	r.mu.Lock()
	standings := r.standings[there.id]
	r.mu.Unlock()
	calls := r.calls(foo)

	r.lose(there.id)
	r.is(there.id, SecretMissing, r.namespace+"/"+there.id, "until", "create the Secret again", "kubectl multicluster leave")
	r.clock.forward(grace - 10*time.Second)
	r.notifyAll()
	there.export("v1beta1", "bar") // the connection continues
	r.says(bar, there.id)
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.clock.forward(grace)
	r.notifyAll()

	// Another kubeconfig in the new Secret causes a new connection.
	r.lose(there.id)
	r.is(there.id, SecretMissing)
	r.join(there.id, there.reading("multicluster-peer"))
	r.is(there.id, Connected)
	there.export("v1beta1", "baz")
	r.says(there.name("baz"), there.id)
	r.says(foo, there.id)
	if got := r.calls(foo); got != calls {
		t.Errorf("called %d times for a name that did not change", got-calls)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.standings[there.id] != standings {
		t.Errorf("the standing changed %d times", r.standings[there.id]-standings)
	}
	if len(r.events) != 5 {
		t.Errorf("events %q; want one for each of the five conditions", r.events)
	}
}

// A Secret that stays missing means that the peer leaves. A missing label has the same effect.
func TestAPeerWithoutASecretLeavesAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	for _, lose := range []func(){
		func() { r.lose(there.id) },
		func() {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, mcs.LabelPeer)
			if _, err := r.client.CoreV1().Secrets(r.namespace).Patch(t.Context(), there.id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		r.join(there.id, kubeconfig(t, there.config))
		r.is(there.id, Connected)
		r.says(foo, there.id)
		lose()
		r.is(there.id, SecretMissing)
		if got := r.said(foo); got != there.id {
			t.Errorf("foo is reported by %q in the grace period", got)
		}
		r.clock.forward(grace)
		r.notifyAll()
		r.says(foo, "")
		r.leaseGoes(there.id)
	}
}

// The same if the controller starts while the Secret is missing. The Lease records the peer.
func TestSecretDeletedWithoutAControllerIsAwaited(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	r := place.read(t)
	config := kubeconfig(t, there.config)
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.stop()

	r.lose(there.id)
	r = place.read(t, timeout(time.Hour))
	<-r.Settled()
	if got := r.said(foo); got != "?"+there.id {
		t.Errorf("foo is reported by %q when all is settled", got)
	}
	r.is(there.id, SecretMissing, "until")
	r.join(there.id, config)
	r.says(foo, there.id)
	r.is(there.id, Connected)
	r.stop()

	r.lose(there.id)
	r = place.read(t, timeout(time.Minute)) // its time is longer than that of an unreachable peer
	<-r.Settled()
	r.is(there.id, SecretMissing)
	r.clock.forward(restoreGrace - time.Second)
	r.looked(there.id)
	if got := r.said(foo); got != "?"+there.id {
		t.Errorf("foo is reported by %q near the end of its time", got)
	}
	r.clock.forward(time.Second)
	r.notifyAll()
	r.says(foo, "")
	r.leaseGoes(there.id)
}

// `kubectl multicluster leave` while no controller runs, or when the Secret is already missing: the mark on
// the Lease means that the peer left on purpose.
func TestAMarkedLeaseMakesAMissingPeerLeaveAtOnce(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	place := newPlace(t)
	config := kubeconfig(t, there.config)
	mark := func(r *reader) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "true"}}}`, annotationLeaving)
		if _, err := r.client.CoordinationV1().Leases(r.namespace).Patch(t.Context(), there.id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	imports := &imports{ids: []string{there.id}}
	remember := func(o *Options) { o.Remembered = imports.remembered }
	r := place.read(t)
	r.join(there.id, config)
	r.is(there.id, Connected)
	mark(r) // from a leave that did not finish
	r.stop()

	// With its Secret it is a peer, and the mark is removed. A Secret that is missing later is then
	// not missing on purpose.
	r = place.read(t)
	kube.Eventually(t, "the mark goes", func() error {
		lease, err := r.leaseOf(there.id)
		if err == nil && lease.Annotations[annotationLeaving] != "" {
			err = errors.New("it is there")
		}
		return err
	})
	r.stop()
	r.lose(there.id)
	r = place.read(t, remember)
	r.is(there.id, SecretMissing, "until", "kubectl multicluster leave")
	r.notifyAll()
	if got := r.said(foo); got != "?"+there.id {
		t.Errorf("foo is reported by %q while the Secret is missing", got)
	}
	mark(r)
	r.notifyAll()
	r.says(foo, "")
	r.is(there.id, Leaving)
	// A controller that starts before everything is removed does not wait for the Secret.
	r.stop()
	r = place.read(t, remember)
	<-r.Settled()
	r.says(foo, "")
	imports.forget(there.id)
	r.leaseGoes(there.id)

	r.join(there.id, config)
	r.is(there.id, Connected)
	r.stop()
	r.lose(there.id)
	mark(r)
	r = place.read(t, remember)
	r.says(foo, "")
	r.leaseGoes(there.id)
}

// imports are the clusters that this cluster's imports record.
type imports struct {
	mu     sync.Mutex
	ids    []string
	failed bool
}

// remembered returns the IDs. If failed is set, it fails the first time.
func (i *imports) remembered(context.Context) ([]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failed {
		i.failed = false
		return nil, errors.New("not yet")
	}
	return slices.Clone(i.ids), nil
}

func (i *imports) forget(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ids = slices.DeleteFunc(i.ids, func(other string) bool { return other == id })
}

// The controller's namespace was deleted and created again, without Leases. Imports record the
// peers. Users with permission to write imports can record any number of IDs.
func TestClusterKnownFromImportsOnlyIsAwaited(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	ids := []string{"Not An ID", "a/b", "..", ""}
	for i := range 20_000 { // invalid IDs are ignored
		ids = append(ids, fmt.Sprintf("X_%d", i))
	}
	ids = append(ids, there.id, "gone")
	for i := range 2 * maxRemembered {
		ids = append(ids, fmt.Sprintf("forged-%03d", i))
	}
	place := newPlace(t)
	ids = append([]string{place.namespace}, ids...) // its own ID, which is not a peer
	imports := &imports{ids: ids, failed: true}
	remember := func(o *Options) { o.Timeout, o.Remembered = time.Minute, imports.remembered }
	r := place.read(t, remember)
	<-r.Settled()
	if heard := r.Snapshot(foo); len(heard.Unknown) != maxRemembered || !slices.Contains(heard.Unknown, there.id) || slices.Contains(heard.Unknown, place.namespace) {
		t.Errorf("%d clusters are unheard; want %d, %s among them, and not %s", len(heard.Unknown), maxRemembered, there.id, place.namespace)
	}
	r.is(there.id, SecretMissing, "until", "create the Secret again")
	r.clock.forward(restoreGrace - time.Minute)
	r.looked(there.id)
	// A Secret without a working server changes nothing either.
	r.join(there.id, kubeconfig(t, &rest.Config{Host: "https://127.0.0.1:1"}))
	r.is(there.id, Unreachable)
	if got := r.Snapshot(foo).Unknown; !slices.Contains(got, there.id) {
		t.Errorf("%s is not waited for, but %q", there.id, got)
	}
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	r.is("gone", SecretMissing)
	r.clock.forward(time.Minute)
	r.notifyAll()
	imports.forget("gone")
	r.leaseGoes("gone")
	r.says(foo, there.id)
	// A peer whose Secret exists again has the usual grace period.
	r.lose(there.id)
	r.is(there.id, SecretMissing)
	r.clock.forward(grace)
	r.notifyAll()
	imports.forget(there.id)
	r.leaseGoes(there.id)
}

// `kubectl delete namespace` deletes the Secrets before the pods. No peer leaves because of that.
func TestNoPeerLeavesWhileTheOwnNamespaceEnds(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	r.says(foo, there.id)

	namespaces := r.client.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), r.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.lose(there.id) // this control plane does not delete it
	r.is(there.id, SecretMissing, "namespace", "being deleted")
	stays := func(when string) {
		t.Helper()
		for range 2 {
			r.clock.forward(time.Hour)
			r.looked(there.id)
		}
		if got := r.said(foo); got != there.id {
			t.Errorf("foo is reported by %q %s", got, when)
		}
	}
	stays("while the namespace is being deleted")
	ns, err := namespaces.Get(t.Context(), r.namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the namespace goes", func() error {
		r.Registry.mu.RLock()
		defer r.Registry.mu.RUnlock()
		if r.home.lasts {
			return errors.New("it is seen")
		}
		return nil
	})
	stays("after the namespace has gone")
}

// looked waits until a peer has been evaluated with the current clock.
func (r *reader) looked(id string) {
	r.t.Helper()
	r.Registry.mu.RLock()
	p := r.peers[id]
	r.Registry.mu.RUnlock()
	if p == nil {
		return
	}
	for range 2 { // one evaluation may be running
		p.notify()
		kube.Eventually(r.t, "a look", func() error {
			if len(p.wake) > 0 {
				return errors.New("not yet")
			}
			return nil
		})
	}
}

// A missing permission to read Secrets does not mean that there are no Secrets.
func TestNoPeerLeavesWhenTheRightsGo(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	p := newPlace(t)
	api, err := faultproxy.Before(p.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	p.config = api.Config(p.config)
	r := p.read(t)
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	secrets := schema.GroupResource{Resource: "secrets"}
	for _, disturb := range []func() (resume func()){
		func() func() {
			return api.Answer(apierrors.NewForbidden(secrets, "", errors.New("no")), secrets.Resource)
		},
		func() func() { return api.Hollow(secrets.Resource) },
	} {
		resume, before := disturb(), api.Replies()
		api.Cut()
		kube.Eventually(t, "the Secrets are watched and listed again", func() error {
			if n := api.Replies() - before; n < 4 {
				return fmt.Errorf("only %d requests", n)
			}
			return nil
		})
		r.clock.forward(time.Hour)
		r.looked(there.id)
		r.is(there.id, Connected)
		if got := r.said(foo); got != there.id {
			t.Errorf("foo is reported by %q", got)
		}
		resume()
	}
}

// A cluster under another ID renames its slices. The data read under the correct ID stays, even
// after a new connection.
func TestPeerWithAnotherIDKeepsItsExports(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo := there.name("foo")
	r := newPlace(t).read(t, timeout(time.Hour))
	r.join(there.id, kubeconfig(t, there.config))
	r.is(there.id, Connected)
	has := func(want string) error {
		peers := r.Snapshot(foo).Active
		if len(peers) != 1 || !peers[0].Exports() || !slices.Equal(addresses(peers[0]), []string{want}) {
			return fmt.Errorf("foo is %+v", peers)
		}
		return nil
	}
	kube.Eventually(t, "all of foo", func() error { return has("10.1.0.1") })
	calls := r.calls(foo)
	for _, wrong := range []struct{ id, reason string }{{"another", WrongID}, {r.namespace, DuplicateID}} {
		there.announce(wrong.id)
		r.is(there.id, wrong.reason)
		applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.1", "another"))
		applyTo(t, there.Cluster, there.namespace, there.slice("seen", "10.1.0.3", there.id))
		kube.Eventually(t, "the change is read", func() error {
			r.Registry.mu.RLock()
			defer r.Registry.mu.RUnlock()
			view := r.peers[there.id].connection.contents
			if len(view.slices.byService[there.name("seen")])+len(view.slices.byService[foo]) != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		if err := has("10.1.0.1"); err != nil || r.said(there.name("seen")) != "" {
			t.Errorf("%s: %v, and seen is reported by %q", wrong.reason, err, r.said(there.name("seen")))
		}
		// A new connection reads everything again.
		r.join(there.id, there.reading("multicluster-peer"))
		kube.Eventually(t, "the new connection has read everything", func() error {
			r.Registry.mu.RLock()
			defer r.Registry.mu.RUnlock()
			if p := r.peers[there.id]; p.connection == nil || !p.connection.contents.complete() || len(p.connection.contents.slices.byService[there.name("seen")]) != 1 {
				return errors.New("not yet")
			}
			return nil
		})
		r.looked(there.id)
		r.is(there.id, wrong.reason)
		if err := has("10.1.0.1"); err != nil {
			t.Errorf("%s, after a new connection: %v", wrong.reason, err)
		}
		if got := r.calls(foo); got != calls {
			t.Errorf("%s: called %d times for a name that did not change", wrong.reason, got-calls)
		}
		// The correct ID again.
		applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.1", there.id))
		remove(t, there.Cluster, there.namespace, there.slice("seen", "10.1.0.3", there.id))
		kube.Eventually(t, "foo is read again", func() error {
			r.Registry.mu.RLock()
			defer r.Registry.mu.RUnlock()
			if view := r.peers[there.id].connection.contents; len(view.slices.byService[foo]) != 1 || len(view.slices.byService[there.name("seen")]) > 0 {
				return errors.New("not yet")
			}
			return nil
		})
		there.announce(there.id)
		r.is(there.id, Connected)
	}
	applyTo(t, there.Cluster, there.namespace, there.slice("foo", "10.1.0.9", there.id))
	kube.Eventually(t, "and its present exports are used", func() error { return has("10.1.0.9") })
	there.announce("another")
	r.is(there.id, WrongID)
	r.clock.forward(time.Hour)
	r.notifyAll()
	r.says(foo, "") // like an unreachable peer
}

// With a wrong ID nothing is written, and the Registry stops.
func TestAWrongIDEndsTheSet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		announced, peer string // "own" is the ID of the controller
		want            error
	}{
		{"the namespace announces another ID", "another", "", ErrOtherID},
		{"the namespace announces another ID, and a peer has the own", "another", "own", ErrOtherID},
		{"a peer has the ID", "", "own", ErrPeersID},
		{"a peer has the ID that the namespace announces: that Secret is wrong", "own", "own", nil},
		{"all is right", "own", "another", nil},
		{"nothing is announced yet", "", "another", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			own := func(id string) string {
				if id == "own" {
					return p.namespace
				}
				return id
			}
			at := &cluster{t: t, Cluster: home.Cluster(t), namespace: p.namespace}
			at.announce(own(test.announced))
			admin := rest.CopyConfig(home.Cluster(t).Config)
			if test.peer != "" {
				join(t, kubernetesOf(admin), p.namespace, own(test.peer), nil)
			}
			err := CheckID(t.Context(), p.config, p.namespace, p.namespace)
			if !errors.Is(err, test.want) {
				t.Errorf("the check gives %v; want %v", err, test.want)
			}
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			set := New(p.options(ctx, &reader{t: t, clock: &clock{}}))
			ended := make(chan error, 1)
			go func() { ended <- set.Start(ctx) }()
			if test.want != nil {
				endsWith(t, ended, test.want)
				select {
				case <-set.Settled():
					t.Error("it has settled: what it knows would be written")
				default:
				}
				leases, err := kubernetesOf(admin).CoordinationV1().Leases(p.namespace).List(t.Context(), metav1.ListOptions{})
				others := slices.DeleteFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name == member.Name })
				if err != nil || len(others) > 0 || at.announces(test.announced) != nil {
					t.Errorf("Leases %v: %v, %v", others, err, at.announces(test.announced))
				}
				return
			}
			<-set.Settled()
			kube.Eventually(t, "the ID is announced", func() error { return at.announces(p.namespace) })
			// A different announced ID is not overwritten later either.
			at.announce("another")
			endsWith(t, ended, ErrOtherID)
			if err := at.announces("another"); err != nil {
				t.Error(err)
			}
		})
	}
}

func endsWith(t *testing.T, ended <-chan error, want error) {
	t.Helper()
	select {
	case err := <-ended:
		if !errors.Is(err, want) {
			t.Errorf("it ended with %v; want %v", err, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}

// Any label or annotation of the controller marks a Lease as that of a peer.
func TestALeaseWithoutThePeersLabelIsRemembered(t *testing.T) {
	t.Parallel()
	there, way, config := away(t)
	there.export("v1beta1", "foo")
	place := newPlace(t)
	r := place.read(t, timeout(time.Hour))
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.stop()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, mcs.LabelPeer)
	if _, err := r.client.CoordinationV1().Leases(r.namespace).Patch(t.Context(), there.id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	refuse(t, way)
	r = place.read(t, timeout(time.Hour))
	<-r.Settled()
	r.says(there.name("foo"), "?"+there.id)
	r.is(there.id, Unreachable)
	l, err := r.leaseOf(there.id)
	if _, labelled := l.Labels[mcs.LabelPeer]; err != nil || !labelled {
		t.Errorf("the labels are %v: %v", l.Labels, err)
	}
}
