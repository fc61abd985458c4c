package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/compact"
)

// Options of a Registry.
type Options struct {
	// Home is the own cluster's id.
	Home string
	// Namespace is where the Secrets of peers and their Leases are, and whose annotation announces the own id.
	Namespace string
	// Timeout is how long a peer that cannot be reached counts; 0 for ever.
	Timeout time.Duration
	// UserAgent of the requests to peers.
	UserAgent string
	// Now is the own cluster's clock, the only one that a peer's time is counted by; time.Now unless given.
	Now func() time.Time
	// Remembered gives the ids of other clusters that this cluster's imports have something of, the most credible first. It is asked at the
	// start, again after an error: those that are no peers count for ten minutes more, so that Secrets may come after the controller. May be
	// nil.
	Remembered func(context.Context) ([]string, error)
	// Cache has the own cluster's Namespaces, and the Secrets of peers in Namespace.
	Cache cache.Informers
	// Live reads Leases from the own cluster's API server itself, as there are few and nobody waits for a change of them.
	Live client.Reader
	// Writer is the only one to write to the own cluster.
	Writer Writer
	Events events.EventRecorder
	Log    logr.Logger
}

// Writer writes Leases of peers and the announced id. apply.PeerWriter is one.
type Writer interface {
	PutLease(ctx context.Context, lease *coordinationv1.Lease, unset ...string) error
	DeleteLease(ctx context.Context, lease *coordinationv1.Lease) error
	Announce(ctx context.Context, namespace, resourceVersion, id string) error
}

// Registry knows the other clusters of the clusterset.
type Registry struct {
	options    Options
	grace      time.Duration
	probeEvery time.Duration
	renewEvery time.Duration
	onChange   []func(types.NamespacedName)
	onState    []func(cluster string)

	ctx     context.Context //nolint:containedctx // of Start, for what Secrets begin and end while it runs
	running sync.WaitGroup

	settled    chan struct{}
	begun      chan struct{} // closed when the own ID has been found right: nothing is written before
	announcing chan struct{} // holds a token while the own id has to be looked at

	// mu guards all that follows, and what peers and connections mark as guarded. Callbacks are called without it.
	mu       sync.RWMutex
	identity identity
	secrets  secrets
	peers    map[string]*peer
	leaving  map[string]chan struct{} // closed when nothing of a peer that has left is there any more
	adopted  bool                     // also the peers are known that have no Secret
	awaited  map[string]bool          // peers that were there at the start and have neither been read nor failed; nil before the start
	strings  compact.Strings
}

// New prepares a Registry. It makes no request yet.
func New(o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Registry{
		options: o, grace: grace, probeEvery: 3 * time.Second, renewEvery: 10 * time.Second,
		settled: make(chan struct{}), begun: make(chan struct{}), announcing: make(chan struct{}, 1),
		identity: identity{by: map[string]string{}, home: o.Namespace}, secrets: secrets{},
		peers: map[string]*peer{}, leaving: map[string]chan struct{}{},
	}
	if o.Timeout > 0 { // short ones are for tests
		s.probeEvery, s.renewEvery = min(s.probeEvery, o.Timeout/4), min(s.renewEvery, o.Timeout/4)
	}
	return s
}

// OnChange has f called for each name whose Snapshot may have changed. To be called before Start. f is called from
// several goroutines and has to return soon.
func (r *Registry) OnChange(f func(types.NamespacedName)) { r.onChange = append(r.onChange, f) }

// OnState has f called when a peer's state changes, or it becomes a peer or ceases to be one. Whatever was made of it meanwhile has to be
// planned again, under whatever names that is. To be called before Start, as with OnChange.
func (r *Registry) OnState(f func(cluster string)) { r.onState = append(r.onState, f) }

// NeedLeaderElection is true: who writes nothing has no need of peers, and their Leases have one writer.
func (*Registry) NeedLeaderElection() bool { return true }

// settleWithin is how long the start waits for peers that neither answer nor fail.
const settleWithin = 5 * time.Second

// Start follows the clusters until ctx ends, and returns when all that it started has ended. The error is ErrOtherID or ErrPeersID: to
// go on would remove what the cluster with that ID has.
func (r *Registry) Start(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer r.running.Wait()
	defer end(nil)
	r.ctx = ctx
	if err := r.watchHome(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := r.idFault(); err != nil {
		return err
	}
	close(r.begun)
	r.running.Go(func() { end(r.announce(ctx)) })
	r.adopt(ctx)
	select {
	case <-ctx.Done():
	case <-r.settled:
	case <-time.After(settleWithin):
		r.mu.Lock()
		r.awaited = map[string]bool{}
		r.settleLocked()
		r.mu.Unlock()
	}
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, ErrOtherID) {
		return err
	}
	return nil
}

// Settled is closed when all peers are known, and each peer that was there at the start has either been read
// or has failed, or five seconds have passed. Before that a Snapshot has less than there is.
func (r *Registry) Settled() <-chan struct{} { return r.settled }

// settleLocked closes Settled where nothing more is waited for.
func (r *Registry) settleLocked() {
	if r.awaited == nil || len(r.awaited) > 0 || !r.adopted {
		return
	}
	select {
	case <-r.settled:
	default:
		close(r.settled)
	}
}

// call tells of changes. Who has called it must not hold mu.
func (r *Registry) call(names []types.NamespacedName) {
	for _, f := range r.onChange {
		for _, name := range names {
			f(name)
		}
	}
}

func (r *Registry) callState(cluster string) {
	for _, f := range r.onState {
		f(cluster)
	}
}
