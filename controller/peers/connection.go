package peers

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// The resources of a peer that are watched.
const (
	ofExports = iota
	ofMember
	ofSlices
	resources
)

var resourceNames = [resources]string{mcsv1beta1.ServiceExportPluralName, "leases", "endpointslices"}

// connection reads a peer. It ends when the kubeconfig in the peer's Secret changes, unless only the
// token is a new one of the same account.
type connection struct {
	peer      *peer
	target    target // used only by the peer's run
	host      string
	namespace string // of the controller there
	exposed   string // who else can read what is sent, for a message
	transport *transport
	budget    *budget
	followers []*reflector.Follower
	clients   [resources][]reflector.Version // of each resource, the best version first
	accounts  typedcorev1.ServiceAccountsGetter
	renewals  chan order    // contains the renewal of the token that is due
	swapped   chan struct{} // contains a value if the token was replaced
	cancel    context.CancelFunc
	running   sync.WaitGroup

	// Guarded by the Registry's mu:
	contents *contents
	heard    member.Announcement  // what was read last; the zero value if there is none
	member   member.Announcement  // what is in effect
	hold     hold                 // of the announcement
	probing  error                // of the last probe
	listing  [resources]error     // of each follower's last list, nil after a complete list
	watching [resources]error     // of each follower's last watch
	busy     [resources]time.Time // since when a busy API server has refused lists and watches; zero if it does not
	// suspected means that nothing has arrived for a moment, silent that this has lasted for a while.
	suspected, silent bool
}

// newConnection prepares a connection. It makes no request yet.
func newConnection(p *peer, to target) (c *connection, err error) {
	config := rest.CopyConfig(to.config)
	config.BearerToken = to.token
	config.UserAgent, config.QPS, config.WarningHandler = p.registry.options.UserAgent, -1, rest.NoWarnings{}
	c = &connection{
		peer: p, target: to, host: config.Host, namespace: cmp.Or(to.namespace, p.registry.options.Namespace), exposed: exposureOf(config),
		budget: newBudget(), contents: newContents(), renewals: make(chan order, 1), swapped: make(chan struct{}, 1),
	}
	if c.transport, err = newTransport(config, c.budget, p.registry.options.Transport); err != nil {
		return nil, err
	}
	if c.accounts, err = typedcorev1.NewForConfigAndClient(config, c.transport.client); err != nil {
		return nil, err
	}
	if c.followers, err = c.follow(config); err != nil {
		return nil, err
	}
	return c, nil
}

// follow prepares the followers. Of EndpointSlices, only those of the peer's own exports are read, and of Leases the announcement.
func (c *connection) follow(config *rest.Config) ([]*reflector.Follower, error) {
	s, contents := c.peer.registry, c.contents
	own := labels.SelectorFromSet(labels.Set{mcsv1beta1.LabelSourceCluster: c.peer.id, discoveryv1.LabelManagedBy: mcs.ControllerName})
	all := [resources]reflector.Resource{
		ofExports: {Object: &serviceExport{}},
		ofMember:  {Namespace: c.namespace, Fields: fields.OneTermEqualSelector("metadata.name", member.Name).String(), Object: &coordinationv1.Lease{}},
		ofSlices:  {Labels: own.String(), Object: &discoveryv1.EndpointSlice{}},
	}
	groups := [resources][]schema.GroupVersion{mcs.Versions, {coordinationv1.SchemeGroupVersion}, {discoveryv1.SchemeGroupVersion}}
	stores := [resources]cache.ReflectorStore{
		ofExports: newStore(s, aged{contents.exports, &contents.watched, s.options.Now}, &contents.synced[ofExports], trimExport, c.stored(ofExports)),
		ofMember:  newStore(s, announcement{&c.heard, c.namespace}, &contents.synced[ofMember], trimMember, c.stored(ofMember)),
		ofSlices:  newStore(s, contents.slices, &contents.synced[ofSlices], s.trimSlice, c.stored(ofSlices)),
	}
	var followers []*reflector.Follower
	for i, r := range all {
		var err error
		r.Name, r.Whole = resourceNames[i], true // the limits of an answer then apply to the whole list
		if r.Versions, err = versions(config, c.transport.client, c.budget, groups[i]...); err != nil {
			return nil, err
		}
		c.clients[i] = r.Versions
		followers = append(followers, reflector.New(r, stores[i], c.report(i)))
	}
	return followers, nil
}

// start starts the followers and the probes. They run until stop. client-go logs nothing, because
// the condition contains its errors.
func (c *connection) start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(klog.NewContext(ctx, logr.Discard()))
	for _, f := range c.followers {
		c.running.Go(func() { f.Run(ctx) })
	}
	c.running.Go(func() { c.hear(ctx) })
	c.running.Go(func() { c.keepProbing(ctx) })
	c.running.Go(func() { c.renewTokens(ctx) })
}

// stop stops the connection and waits for its goroutines. A nil connection was never started.
func (c *connection) stop() {
	if c == nil {
		return
	}
	c.cancel()
	c.running.Wait()
	c.transport.close()
}

// report returns the function that receives the results of a follower's requests. List and watch
// need separate permissions, and a proxy may block only one of them. So the success of one does not
// clear the error of the other.
func (c *connection) report(resource int) reflector.Report {
	return func(verb reflector.Verb, err error) {
		c.peer.registry.mu.Lock()
		if apierrors.IsTooManyRequests(err) {
			if c.busy[resource].IsZero() {
				c.busy[resource] = c.peer.registry.options.Now()
			}
			c.peer.registry.mu.Unlock()
			return // A busy API server is not silent. The follower tries again.
		}
		if verb == reflector.Watch {
			c.watching[resource], c.busy[resource] = err, time.Time{}
		} else {
			c.listing[resource] = err
		}
		c.peer.registry.mu.Unlock()
		c.peer.notify()
	}
}

// stored returns the function that a store calls after a complete list, which may be streamed
// through a watch, and after each change.
func (c *connection) stored(resource int) func([]types.NamespacedName) {
	return func(names []types.NamespacedName) {
		s := c.peer.registry
		s.mu.Lock()
		recovered := c.listing[resource] != nil
		c.listing[resource] = nil
		moved := false
		if resource == ofMember {
			// Before other data of a cluster that now has another identity is used.
			moved, _ = c.adoptLocked(s.options.Now())
			c.peer.detachLocked()
		}
		s.mu.Unlock()
		if moved {
			s.notifyAll() // a peer's identity affects all peers
		} else if recovered || resource == ofMember {
			c.peer.notify()
		}
		if resource != ofMember {
			c.changed(names)
		}
	}
}

// changed reports changed names, once the contents are complete at the end of the last list.
func (c *connection) changed(names []types.NamespacedName) {
	s := c.peer.registry
	s.mu.Lock()
	c.contents.noteLater(names)
	shown := c.peer.contents == c.contents
	known := shown && s.peers[c.peer.id] == c.peer
	if known {
		names = append(names, c.peer.countLocked(names)...)
		c.peer.retarget = c.peer.retarget || len(names) > 0
	}
	s.mu.Unlock()
	if known {
		s.call(names)
	}
	if !shown {
		c.peer.notify()
	}
}

// useToken sends all further requests with another token, and soon one for each resource: a token
// that the peer does not accept is noticed at once, not when the watches end.
func (c *connection) useToken(of target) {
	c.target = of
	c.transport.token.Store(&of.token)
	select {
	case c.swapped <- struct{}{}:
	default: // all requests with the last token follow
	}
}
