package peers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// The resources of a peer that are followed.
const (
	ofExports = iota
	ofServices
	ofNamespaces
	ofSlices
	resources
)

// connection reads a peer, for as long as its Secret holds the same kubeconfig.
type connection struct {
	peer      *peer
	host      string
	transport *transport
	followers []*reflector.Follower
	probes    [resources][]reflector.Version // the clients to ask for one object
	cancel    context.CancelFunc
	running   sync.WaitGroup

	// guarded by the Registry's mu:
	contents *contents
	identity identity
	probed   bool             // every resource, once
	probing  [resources]error // of the last probe of each
	listing  [resources]error // of each follower's last list, until a list is complete
	watching [resources]error // of each follower's last watch
}

// newConnection prepares a connection. It makes no request yet.
func newConnection(p *peer, kubeconfig []byte) (*connection, error) {
	config, err := readKubeconfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.QPS, config.WarningHandler = p.registry.options.UserAgent, -1, rest.NoWarnings{}
	l := &connection{peer: p, host: config.Host, contents: newContents(), identity: identity{by: map[string]string{}}}
	if l.transport, err = newTransport(config); err != nil {
		return nil, err
	}
	finder, err := discovery.NewDiscoveryClientForConfigAndClient(config, l.transport.client)
	if err != nil {
		return nil, err
	}
	if l.followers, err = l.follow(config, finder); err != nil {
		return nil, err
	}
	return l, nil
}

// follow prepares the followers. Of EndpointSlices, those that the peer's controller made of its own exports.
func (l *connection) follow(config *rest.Config, finder discovery.DiscoveryInterface) ([]*reflector.Follower, error) {
	s, v := l.peer.registry, l.contents
	own := labels.SelectorFromSet(labels.Set{mcsv1beta1.LabelSourceCluster: l.peer.id, discoveryv1.LabelManagedBy: mcs.ControllerName})
	all := [resources]reflector.Resource{
		ofExports:    {Name: mcsv1beta1.ServiceExportPluralName, Object: &serviceExport{}},
		ofServices:   {Name: "services", Object: &corev1.Service{}},
		ofNamespaces: {Name: "namespaces", Object: &corev1.Namespace{}},
		ofSlices:     {Name: "endpointslices", Labels: own.String(), Object: &discoveryv1.EndpointSlice{}},
	}
	groups := [resources][]schema.GroupVersion{mcs.Versions, {corev1.SchemeGroupVersion}, {corev1.SchemeGroupVersion}, {discoveryv1.SchemeGroupVersion}}
	stores := [resources]cache.ReflectorStore{
		ofExports:    newStore(s, v.exports, &v.synced[ofExports], trimExport, l.heard(ofExports)),
		ofServices:   newStore(s, v.services, &v.synced[ofServices], trimService, l.heard(ofServices)),
		ofNamespaces: newStore(s, &l.identity, &v.synced[ofNamespaces], trimNamespace, l.heard(ofNamespaces)),
		ofSlices:     newStore(s, v.slices, &v.synced[ofSlices], s.trimSlice, l.heard(ofSlices)),
	}
	var followers []*reflector.Follower
	for i, r := range all {
		var err error
		r.Whole = true // The limits of an answer are those of a list.
		if r.Versions, err = versions(config, l.transport.client, groups[i]...); err != nil {
			return nil, err
		}
		l.probes[i] = r.Versions
		followers = append(followers, reflector.New(r, finder, stores[i], l.report(i)))
	}
	return followers, nil
}

// start follows and probes until stop.
func (l *connection) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(klog.NewContext(ctx, logr.Discard())) // the condition has what client-go would log
	for _, f := range l.followers {
		l.running.Go(func() { f.Run(ctx) })
	}
	l.running.Go(func() { l.probe(ctx) })
}

// stop returns when all that start began has ended. A nil connection was never started.
func (l *connection) stop() {
	if l == nil {
		return
	}
	l.cancel()
	l.running.Wait()
	l.transport.close()
}

// report receives the result of a follower's requests. A right to list may be missing, or one to watch, and something on the way may answer one of them
// only: so neither ends the trouble with the other.
func (l *connection) report(resource int) reflector.Report {
	return func(verb reflector.Verb, err error) {
		l.peer.registry.mu.Lock()
		if verb == reflector.Watch {
			l.watching[resource] = err
		} else {
			l.listing[resource] = err
		}
		l.peer.registry.mu.Unlock()
		l.peer.notify()
	}
}

// heard is called by a store: a list is complete, perhaps one that was streamed through a watch, or something has changed after it.
func (l *connection) heard(resource int) func([]types.NamespacedName) {
	return func(names []types.NamespacedName) {
		s := l.peer.registry
		s.mu.Lock()
		recovered := l.listing[resource] != nil
		l.listing[resource] = nil
		if resource == ofNamespaces { // before anything else is heard of a cluster that is another one now
			l.peer.detachLocked()
		}
		s.mu.Unlock()
		switch {
		case resource == ofNamespaces:
			s.notifyAll() // the identity of one is a matter of all
		case recovered:
			l.peer.notify()
		}
		if resource != ofNamespaces {
			l.changed(names)
		}
	}
}

// changed reports names that have changed, once the contents are complete: the end of the last list makes them so.
func (l *connection) changed(names []types.NamespacedName) {
	s := l.peer.registry
	s.mu.RLock()
	shown := l.peer.contents == l.contents
	known := shown && s.peers[l.peer.id] == l.peer
	s.mu.RUnlock()
	if known {
		s.call(names)
	}
	if !shown {
		l.peer.notify()
	}
}

// probeTimeout is for one answer. A watch can be dead for half a minute before HTTP/2 knows.
const probeTimeout = 3 * time.Second

// probe asks now and again for one object of a resource: for a ServiceExport each time, and for the others in turn, as who may watch
// might not be allowed to list.
func (l *connection) probe(ctx context.Context) {
	tick := time.NewTicker(l.peer.registry.probeEvery)
	defer tick.Stop()
	for round := 0; ctx.Err() == nil; round++ {
		for resource := range int(resources) {
			if resource != ofExports && round > 0 && resource != 1+round%(resources-1) {
				continue
			}
			if !l.probeOne(ctx, resource) {
				break
			}
		}
		l.peer.registry.mu.Lock()
		l.probed = true
		l.peer.registry.mu.Unlock()
		l.peer.notify()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// probeOne is false where nobody answered.
func (l *connection) probeOne(ctx context.Context, resource int) bool {
	began := time.Now()
	short, cancel := context.WithTimeout(ctx, probeTimeout)
	err := l.ask(short, resource)
	timedOut := errors.Is(short.Err(), context.DeadlineExceeded)
	cancel()
	if err != nil && timedOut {
		l.transport.closeSilent(began)
	}
	if ctx.Err() == nil {
		l.peer.registry.mu.Lock()
		defer l.peer.registry.mu.Unlock()
		l.probing[resource] = err
	}
	return !timedOut
}

// ask lists one object, in the first version that the server has.
func (l *connection) ask(ctx context.Context, resource int) error {
	names := [resources]string{mcsv1beta1.ServiceExportPluralName, "services", "namespaces", "endpointslices"}
	for _, version := range l.probes[resource] {
		err := version.Client.Get().Resource(names[resource]).Param("limit", "1").MaxRetries(0).Do(ctx).Error()
		if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return reflector.ErrAbsent
}

// troubleLocked is the first thing that fails, or nil.
func (l *connection) troubleLocked() error {
	for _, errs := range [][resources]error{l.probing, l.watching, l.listing} {
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
