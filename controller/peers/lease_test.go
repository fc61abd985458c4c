package peers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// busy is an API server that does not answer requests for Leases for a while.
type busy struct {
	client.Reader
	free atomic.Bool
}

var errBusy = errors.New("the API server is busy")

func (b *busy) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	if !b.free.Load() {
		return errBusy
	}
	return b.Reader.Get(ctx, key, into, o...)
}

func (b *busy) List(ctx context.Context, into client.ObjectList, o ...client.ListOption) error {
	if !b.free.Load() {
		return errBusy
	}
	return b.Reader.List(ctx, into, o...)
}

// counting counts how often a Lease is read.
type counting struct {
	client.Reader
	reads atomic.Int64
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	if _, is := into.(*coordinationv1.Lease); is {
		c.reads.Add(1)
	}
	return c.Reader.Get(ctx, key, into, o...)
}

// A Lease is renewed without reading it, until others have written it. Then it is read once, and what
// they changed is repaired.
func TestARenewalDoesNotReadTheLease(t *testing.T) {
	t.Parallel()
	there, _, config := away(t)
	api := &counting{}
	r := newPlace(t).read(t, timeout(2*time.Second), func(o *Options) { api.Reader, o.Live = o.Live, api }) // renewed twice a second
	r.join(there.id, config)
	r.is(there.id, Connected)
	renewed := func() {
		t.Helper()
		for range 3 {
			var before *metav1.MicroTime
			kube.Eventually(t, "the Lease is renewed", func() error {
				l, err := r.leaseOf(there.id)
				if err != nil {
					return err
				}
				if before == nil {
					before = l.Spec.RenewTime
				}
				if before.Equal(l.Spec.RenewTime) {
					return errors.New("not yet")
				}
				return nil
			})
		}
	}
	renewed()
	reads := api.reads.Load()
	renewed()
	if now := api.reads.Load(); now != reads {
		t.Errorf("%d reads for three renewals", now-reads)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null,"theirs":"1"}}}`, labelReason)
	if _, err := r.client.CoordinationV1().Leases(r.namespace).Patch(t.Context(), there.id, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.is(there.id, Connected)
	renewed()
	if now := api.reads.Load(); now != reads+1 {
		t.Errorf("%d reads after a change by others, want 1", now-reads)
	}
	if err := r.client.CoordinationV1().Leases(r.namespace).Delete(t.Context(), there.id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.is(there.id, Connected)
}

// elect creates a Lease as another program does for its leader election.
func elect(t *testing.T, api kubernetes.Interface, namespace, name string) types.UID {
	t.Helper()
	l, err := api.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("operator-0")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l.UID
}

// untouched checks that the Lease of the election is unchanged.
func (r *reader) untouched(name string, uid types.UID) {
	r.t.Helper()
	l, err := r.leaseOf(name)
	if err != nil || l.UID != uid || *l.Spec.HolderIdentity != "operator-0" || len(l.Labels)+len(l.Annotations) > 0 {
		r.t.Errorf("the Lease of another program is %+v: %v", l, err)
	}
}

// A peer that leaves before its Lease was read does not delete a Lease of another program.
func TestLeaseOfAnotherProgramOutlastsAPeer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	uid := elect(t, kubernetesOf(home.Cluster(t).Config), p.namespace, "operator")
	api := &busy{}
	r := p.read(t, func(o *Options) { api.Reader, o.Live = o.Live, api })
	r.join("operator", []byte("garbage"))
	kube.Eventually(t, "there is a peer", func() error {
		if !r.joined("operator") {
			return errors.New("not yet")
		}
		return nil
	})
	r.leave("operator")
	var ended <-chan struct{}
	kube.Eventually(t, "it leaves", func() error {
		r.Registry.mu.Lock()
		defer r.Registry.mu.Unlock()
		if ended = r.leaving["operator"]; ended == nil {
			return errors.New("not yet")
		}
		return nil
	})
	api.free.Store(true)
	<-ended
	r.untouched("operator", uid)
}

// A Lease that another program creates under a peer's name, after the peer's Lease was deleted, is
// not overwritten.
func TestLeaseOfAnotherProgramIsNotOverwritten(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := p.read(t)
	r.join("operator", []byte("garbage"))
	r.is("operator", InvalidKubeconfig)
	if err := r.client.CoordinationV1().Leases(r.namespace).Delete(t.Context(), "operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	uid := elect(t, r.client, p.namespace, "operator")
	r.join("operator", nil) // a change to write
	kube.Eventually(t, "an event names the Lease", func() error {
		if told := r.told("operator"); told[len(told)-1] != "LeaseNotWritten" {
			return fmt.Errorf("the events are %v", told)
		}
		return nil
	})
	r.untouched("operator", uid)
}

// A Lease shows the state of a peer, and decides nothing: whether it is replaced by another program, cannot be read, or
// cannot be deleted, the peer is read, and can join again.
func TestALeaseDecidesNothing(t *testing.T) {
	t.Parallel()
	there := newCluster(t, &east, "own")
	there.export("v1beta1", "foo")
	foo, config := there.name("foo"), kubeconfig(t, there.config)
	p := newPlace(t)
	leases := &noLeases{}
	r := p.read(t, timeout(time.Minute), func(o *Options) {
		leases.Reader, leases.Writer, o.Live, o.Writer = o.Live, o.Writer, leases, leases
	})
	r.join(there.id, config)
	r.is(there.id, Connected)
	r.says(foo, there.id)

	leases.refuse(true)
	r.clock.forward(time.Hour) // a heartbeat of the Lease is due
	kube.Eventually(t, "the trouble is told", func() error {
		if told := r.told(there.id); told[len(told)-1] != "LeaseNotWritten" {
			return fmt.Errorf("the events are %v", told)
		}
		return nil
	})
	if said := r.said(foo); said != there.id {
		t.Errorf("with a Lease that cannot be written, foo is reported by %q", said)
	}
	r.leave(there.id)
	r.says(foo, "")
	r.join(there.id, config)
	r.says(foo, there.id) // although the old Lease is still there
	leases.refuse(false)
	r.is(there.id, Connected)
	r.stop()

	leases.refuse(true)
	r = p.read(t, timeout(time.Minute), func(o *Options) {
		leases.Reader, leases.Writer, o.Live, o.Writer = o.Live, o.Writer, leases, leases
	})
	r.says(foo, there.id) // of a controller that cannot read it at the start
	leases.refuse(false)
	r.is(there.id, Connected)
}

// noLeases is an API server that refuses to get, write and delete Leases for a while.
type noLeases struct {
	client.Reader
	Writer
	refusing atomic.Bool
}

func (n *noLeases) refuse(yes bool) { n.refusing.Store(yes) }

func (n *noLeases) Get(ctx context.Context, key client.ObjectKey, into client.Object, o ...client.GetOption) error {
	if _, is := into.(*coordinationv1.Lease); is && n.refusing.Load() {
		return errBusy
	}
	return n.Reader.Get(ctx, key, into, o...)
}

func (n *noLeases) PutLease(ctx context.Context, l *coordinationv1.Lease, unset ...string) error {
	if n.refusing.Load() {
		return errBusy
	}
	return n.Writer.PutLease(ctx, l, unset...)
}

func (n *noLeases) DeleteLease(ctx context.Context, l *coordinationv1.Lease) error {
	if n.refusing.Load() {
		return errBusy
	}
	return n.Writer.DeleteLease(ctx, l)
}

// A mark on the Lease of a disconnected peer is removed with the next change of its Secret.
// Otherwise a Secret that is missing later would look like a leave on purpose.
func TestCancelledLeavingIsForgotten(t *testing.T) {
	t.Parallel()
	r := newPlace(t).read(t)
	r.join("east", []byte("garbage"))
	r.is("east", InvalidKubeconfig)
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, annotationLeaving)
	if _, err := r.client.CoordinationV1().Leases(r.namespace).Patch(t.Context(), "east", types.MergePatchType, mark, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.join("east", []byte("other garbage"))
	kube.Eventually(t, "the mark is gone", func() error {
		l, err := r.leaseOf("east")
		if err == nil && l.Annotations[annotationLeaving] != "" {
			err = errors.New("it is there")
		}
		return err
	})
}

// Another ID is announced while the Leases of peers cannot be listed: the Registry stops and does
// not settle.
func TestAnotherIDBeforeSettled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	defer cancel()
	o := p.options(ctx, &reader{t: t, clock: &clock{}})
	o.Live = &busy{Reader: o.Live}
	set := New(o)
	ended := make(chan error, 1)
	go func() { ended <- set.Start(ctx) }()
	at := &cluster{t: t, Cluster: home.Cluster(t), namespace: p.namespace}
	kube.Eventually(t, "the own id is announced", func() error { return at.announces(p.namespace) })
	at.announce("another")
	endsWith(t, ended, ErrOtherID)
	select {
	case <-set.Settled():
		t.Error("it has settled: what it knows would be written")
	default:
	}
}

// A hostile peer that imitates another cluster does not cause the honest peer to be refused.
func TestAPeerCannotPassForAnother(t *testing.T) {
	t.Parallel()
	r := New(Options{Home: "home"})
	r.home.uid = "home"
	add := func(id, announces string) *peer {
		c := &connection{contents: newContents(), host: id, member: member.Announcement{ID: announces, UID: "honest"}}
		c.contents.synced = [resources]bool{true, true, true}
		p := &peer{registry: r, id: id, connection: c}
		c.peer, r.peers[id] = p, p
		return p
	}
	add("evil", "evil")
	honest, second := add("honest", "honest"), add("second", "honest")
	if reason, message := honest.conditionLocked(); reason != Connected {
		t.Errorf("the honest peer is %s: %s", reason, message)
	}
	if reason, _ := second.conditionLocked(); reason != DuplicateCluster {
		t.Errorf("a second Secret for its cluster is %s", reason)
	}
}

// announcing returns what is read of a Lease with an ID and a UID.
func announcing(id, uid string) member.Announcement {
	l, _ := member.Announcement{ID: id, UID: uid}.Lease("system", time.Minute)
	return member.Read(l)
}

// The Lease names the cluster that the controller is connected to. A peer that gives itself a UID longer than
// those of an API server is not named, and one that is lost keeps its name.
func TestLeaseNamesTheCluster(t *testing.T) {
	t.Parallel()
	const uid = "a7c9ac4f-8de4-4d4a-8d5c-1a7b58c6b0f1"
	for given, want := range map[string]string{uid: uid, uid + "x": "", strings.Repeat("x", 1<<20): ""} {
		r := New(Options{Home: "home"})
		r.home.uid = "home"
		c := &connection{contents: newContents(), host: "east", member: announcing("east", given)}
		c.contents.synced = [resources]bool{true, true, true}
		p := &peer{registry: r, id: "east", connection: c}
		c.peer, r.peers["east"] = p, p
		p.setConditionLocked()
		if got, named := p.wantedLease().Annotations[mcs.AnnotationClusterUID]; !p.condition.connected || got != want || named != (want != "") {
			t.Errorf("a UID of %d characters: %.50q, %+v", len(given), got, p.condition.reason)
		}
		c.silent = true
		p.setConditionLocked()
		if _, named := p.wantedLease().Annotations[mcs.AnnotationClusterUID]; named || p.condition.connected {
			t.Error("a lost peer writes its name again, instead of leaving the last one")
		}
	}
}

// A peer whose condition does not change costs nothing: its Lease is not looked at before the next
// regular evaluation. It was looked at a thousand times a second once.
func TestAnUnchangedLeaseIsLeftAlone(t *testing.T) {
	r := New(Options{Timeout: time.Hour})
	p := &peer{registry: r, condition: condition{reason: Unreachable}}
	p.lease = lease{at: time.Now().Add(-time.Hour), written: p.condition}
	if pause, err := p.writeLease(t.Context()); err != nil || pause != idle {
		t.Errorf("the next look is after %v, %v", pause, err)
	}
	p.condition.message = "new"
	p.lease.at = time.Now()
	if pause, err := p.writeLease(t.Context()); err != nil || pause < time.Second {
		t.Errorf("with a new message, it is written after %v, %v", pause, err)
	}
}

// told counts the events and writes of Leases. The writes fail while broken is set.
type told struct {
	Writer
	events, writes int
	reason         string // of the Lease
	broken         bool
}

func (c *told) PutLease(_ context.Context, l *coordinationv1.Lease, _ ...string) error {
	c.writes++
	if c.broken {
		return errBusy
	}
	c.reason, l.ResourceVersion = l.Labels[labelReason], "1"
	return nil
}

func (c *told) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	c.events++
}

// A hostile peer that announces another ID hundreds of times a second caused as many events and writes of its Lease. The first
// loss is told at once, and the last state within a second.
func TestAFlappingPeerIsToldOnceASecond(t *testing.T) {
	for _, broken := range []bool{false, true} {
		now, counted := time.Unix(1_700_000_000, 0), &told{broken: broken}
		r := New(Options{Home: "home", Writer: counted, Events: counted, Live: noReader{}, Log: logr.Discard(), Now: func() time.Time { return now }})
		p := &peer{registry: r, id: "east", lease: lease{loaded: true, version: "1"}}
		is := func(reason string) {
			p.condition = condition{reason: reason, connected: reason == Connected}
			p.publish(t.Context())
		}
		is(Connected)
		now = now.Add(time.Millisecond)
		if is(WrongID); counted.reason != WrongID && !broken {
			t.Errorf("a loss is not told at once: %+v", counted)
		}
		for i := range 2500 { // ten seconds
			now = now.Add(4 * time.Millisecond)
			is([]string{Connected, WrongID}[i%2])
		}
		if counted.writes > 13 || counted.events > 13 || counted.events < 2 {
			t.Errorf("broken %v: %d writes and %d events in ten seconds", broken, counted.writes, counted.events)
		}
		counted.broken, now = false, now.Add(time.Second)
		if is(Connected); counted.reason != Connected {
			t.Errorf("broken %v: after a second, the Lease is %s", broken, counted.reason)
		}
	}
}

// noReader is an API server without Leases.
type noReader struct{ client.Reader }

func (noReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
}
