package peers

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/internal/compact"
)

// Options are the options of a Registry.
type Options struct {
	// Home is the ID of this cluster.
	Home string
	// Namespace contains the Secrets of peers, their Leases, and the Lease that announces this cluster.
	Namespace string
	// Timeout is how long a peer that cannot be reached counts, 0 for forever.
	Timeout time.Duration
	// ExportsAll means that this cluster exports from all namespaces. Otherwise it announces nothing
	// until SetExportNamespaces is called.
	ExportsAll bool
	// Version is the version of this controller, which is announced to peers; "" for none.
	Version string
	// UserAgent is the user agent of the requests to peers.
	UserAgent string
	// Now returns the time of this cluster. All times of peers are from this clock. The default is
	// time.Now.
	Now func() time.Time
	// Remembered returns the IDs of other clusters whose exports the imports of this cluster
	// record, the most credible first. It is called at the start, and again after an error. IDs
	// without a peer count for ten minutes, so that Secrets can be created after the controller.
	// May be nil.
	Remembered func(context.Context) ([]string, error)
	// Cache contains the Namespaces of this cluster, its Leases called member.Name, and the Secrets of peers in Namespace.
	Cache cache.Informers
	// Live reads Leases from the API server of this cluster. They are few, and their changes are
	// not urgent.
	Live client.Reader
	// Writer makes all writes to this cluster.
	Writer Writer
	Events events.EventRecorder
	// Heartbeat is the pause between two heartbeats of this cluster. A peer whose heartbeat has not changed
	// for 10/3 of it is silent. The default is 30 s.
	Heartbeat time.Duration
	// ProbeInterval is the pause between two connections to one endpoint of a peer whose API server
	// answers. After a third of it, the endpoints are chosen again. The default is 30 s.
	ProbeInterval time.Duration
	// CutOffTimeout is how long a peer with a silent API server counts as connected because endpoints
	// of it accept connections, 0 for as long as they do.
	CutOffTimeout time.Duration
	// Connect reports whether an endpoint of a peer accepts a TCP connection, as ConnectTCP does. An
	// error means that it could not be tried. If Connect is nil, no endpoint is tested.
	Connect Connect
	// Transport replaces the network to the API servers of peers, for a clusterset in one process; nil for the real one.
	Transport Transport
	// Profiles is the namespace of the ClusterProfiles with the addresses of peers whose Secrets
	// contain only a token. They are read with Config, that of this cluster. If Profiles is empty,
	// no profile is read.
	Profiles string
	Config   *rest.Config
	Log      logr.Logger
}

// Connect opens a connection to an endpoint: see Options.
type Connect func(ctx context.Context, at datapath.Target) (accepted bool, err error)

// Writer writes Leases and renewed tokens. apply.PeerWriter implements it.
type Writer interface {
	PutLease(ctx context.Context, lease *coordinationv1.Lease, unset ...string) error
	DeleteLease(ctx context.Context, lease *coordinationv1.Lease) error
	PutSecretData(ctx context.Context, secret *corev1.Secret) error
}

// Registry contains the other clusters of the clusterset.
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
	begun      chan struct{} // closed when the own ID is verified: nothing is written before
	announcing chan struct{} // contains a token if the own ID must be checked

	prober prober

	beaten        time.Time     // when the announcement was written last
	announcements *rate.Limiter // of its writes

	// mu guards all fields below, and the fields of peers and connections that are marked as
	// guarded. Callbacks run without it.
	mu   sync.RWMutex
	home homeCluster
	// properties are those of this cluster; nil if they are not known yet.
	properties map[string]string
	exporting  *string              // the namespaces to export from; nil if they are not known, or all
	others     map[string]time.Time // namespaces of this cluster with a controller: the heartbeat that was seen last
	secrets    secrets
	inventory  inventory
	peers      map[string]*peer
	leaving    map[string]chan struct{} // closed when a peer that has left has ended
	adopted    bool                     // adopt has added the peers without a Secret
	// awaited are the peers that existed at the start and have neither been read nor failed. It is
	// nil before the start.
	awaited map[string]bool
	strings compact.Strings
}

// New prepares a Registry. It makes no request yet.
func New(o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Heartbeat, o.ProbeInterval = cmp.Or(o.Heartbeat, defaultHeartbeat), cmp.Or(o.ProbeInterval, datapath.Interval)
	s := &Registry{
		options: o, grace: grace, probeEvery: 30 * time.Second, announcements: newAnnouncements(o.Heartbeat), renewEvery: o.Heartbeat,
		settled: make(chan struct{}), begun: make(chan struct{}), announcing: make(chan struct{}, 1),
		prober: prober{wake: make(chan struct{}, 1), checked: map[types.NamespacedName]bool{}},
		home:   homeCluster{members: map[string]announced{}}, secrets: secrets{}, inventory: inventory{namespace: o.Profiles, profiles: profiles{}},
		others: map[string]time.Time{}, peers: map[string]*peer{}, leaving: map[string]chan struct{}{},
	}
	if o.Timeout > 0 { // tests use short timeouts
		s.probeEvery, s.renewEvery = min(s.probeEvery, o.Timeout/4), min(s.renewEvery, o.Timeout/4)
	}
	return s
}

// OnChange registers f, which is called for each name whose Snapshot may have changed. Call
// OnChange before Start. Several goroutines call f, and f must return quickly.
func (r *Registry) OnChange(f func(types.NamespacedName)) { r.onChange = append(r.onChange, f) }

// OnState registers f, which is called when the state of a peer changes, or a peer joins or leaves.
// Everything that was created from that peer's data must then be planned again. Call OnState before
// Start. f has the same limits as for OnChange.
func (r *Registry) OnState(f func(cluster string)) { r.onState = append(r.onState, f) }

// NeedLeaderElection returns true: a replica that does not write needs no peers, and their Leases
// have one writer.
func (*Registry) NeedLeaderElection() bool { return true }

// settleWithin is how long the start waits for peers that neither answer nor fail.
const settleWithin = 5 * time.Second

// Start watches the clusters until ctx ends, and returns when everything that it started has ended.
// The error is ErrOtherID, ErrPeersID or ErrSecondInstallation: to continue would remove what another cluster or
// controller has.
func (r *Registry) Start(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer r.running.Wait()
	defer end(nil)
	r.ctx = ctx
	if err := r.watchProfiles(ctx); err != nil {
		return err
	}
	if err := r.watchHome(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := r.idFault(); err != nil {
		return err
	}
	if err := r.alone(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	close(r.begun)
	r.running.Go(func() { end(r.announce(ctx)) })
	if r.options.Connect != nil {
		r.running.Go(func() { r.probe(ctx) })
	}
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
	if err := context.Cause(ctx); errors.Is(err, ErrOtherID) || errors.Is(err, ErrSecondInstallation) {
		return err
	}
	return nil
}

// Settled returns a channel that is closed when all peers are known, and each peer that existed at
// the start has been read or has failed, or after five seconds. Before that, a Snapshot is
// incomplete.
func (r *Registry) Settled() <-chan struct{} { return r.settled }

// settleLocked closes Settled if there is nothing more to wait for.
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

// call calls the OnChange callbacks. The caller must not hold mu.
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
