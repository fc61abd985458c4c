package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// clusterset gathers the exports of all clusters under a name: those of this cluster from the
// manager's caches, the others from the peers' snapshots.
type clusterset struct {
	home         string
	cache        client.Reader
	peers        *peers.Registry
	names        *nameSource
	maxEndpoints int       // endpoints in a slice
	probes       bool      // endpoints of peers can be connected to
	keepLast     bool      // the last endpoints of a name stay if their clusters are only assumed to be dead
	began        time.Time // start of this process; older changes are not measured
	now          func() time.Time

	grace time.Duration // for an export without its Service, and a namespace without its labels

	imports  Namespaces // to which peers' exports are imported
	natives  Namespaces // in which an export can ask for the Service's own name
	own      string     // the controller's own namespace
	exporter *exporter  // nil: this cluster exports from all namespaces
}

// gather reads what the clusterset exports under a name, and what this cluster has under the own name. The import,
// if there is one, is in the state.
func (c *clusterset) gather(ctx context.Context, p *pass) error {
	key, imp := p.key, p.state.Import
	c.names.waiting.forget(key)
	snapshot := c.peers.Snapshot(key)
	cs := &observed.Clusterset{Home: c.home, Silent: snapshot.Unknown, SilentExpired: snapshot.UnknownExpired, Probes: c.probes, Checked: c.peers.Checked(key), MaxEndpoints: c.maxEndpoints}
	p.state.Clusterset = cs
	var err error
	if cs.Export, err = found(ctx, c.cache, key, new(mcsv1beta1.ServiceExport)); err != nil {
		return err
	}
	svc, err := found(ctx, c.cache, key, new(corev1.Service))
	if err != nil {
		return err
	}
	home, err := c.homeMember(ctx, key, cs.Export, svc)
	if err != nil {
		return err
	}
	c.assume(cs, snapshot)
	cs.Members = slices.Concat(snapshot.Active, snapshot.Expired, []merge.Member{home})
	withdrawn := c.withdrawn(key, imp, cs)
	var again time.Duration
	cs.Vacant, again = p.vacant.of(cs.Members, func(m merge.Member) time.Duration { return c.graceOf(m, withdrawn, svc) }, c.now())
	p.next(again)
	namespace, err := found(ctx, c.cache, types.NamespacedName{Name: key.Namespace}, new(corev1.Namespace))
	if err != nil {
		return err
	}
	if cs.Namespace = namespace != nil && namespace.DeletionTimestamp == nil; cs.Namespace {
		p.next(c.selectExport(key.Name, cs, namespace))
		p.next(c.selectPeers(key, imp, cs, namespace, &p.deselected))
	}
	return c.gatherNative(ctx, p, svc, namespace)
}

// graceOf returns for how long a member keeps what it had, 0 for one that lacks nothing.
func (c *clusterset) graceOf(m merge.Member, withdrawn []string, svc *corev1.Service) time.Duration {
	home := m.Cluster == c.home
	// Kubernetes creates a slice for each Service with a selector, even without pods.
	populating := home && svc != nil && len(svc.Spec.Selector) > 0 && len(m.Slices) == 0
	switch {
	case slices.Contains(withdrawn, m.Cluster):
		return replaceGrace
	case m.Export == nil || m.Service != nil && !populating:
		return 0
	case home, m.Export.Invalid && len(m.Slices) > 0:
		return c.grace
	case m.Export.Invalid: // its slices have gone because its own grace is over
		return 0
	}
	return peerGrace
}

// homeMember is what this cluster has under a name.
func (c *clusterset) homeMember(ctx context.Context, key types.NamespacedName, export *mcsv1beta1.ServiceExport, svc *corev1.Service) (home merge.Member, err error) {
	home = merge.Member{Cluster: c.home, Properties: c.peers.Properties()}
	if export != nil {
		home.Export = merge.TrimExport(export)
		home.Slices, err = c.homeSlices(ctx, key)
	}
	if svc != nil && !ownership.NativeService(svc) {
		home.Service = merge.TrimService(svc)
	}
	return home, err
}

// withdrawn returns the clusters whose export the import still has, and which have deleted it. It adds those to the
// members that are not among them.
func (c *clusterset) withdrawn(key types.NamespacedName, imp *mcsv1beta1.ServiceImport, cs *observed.Clusterset) (all []string) {
	if imp == nil || !ownership.OfImport(imp) {
		return nil
	}
	for _, status := range imp.Status.Clusters {
		id := status.Cluster
		i := slices.IndexFunc(cs.Members, func(m merge.Member) bool { return m.Cluster == id })
		if i >= 0 && cs.Members[i].Export != nil || id != c.home && !c.peers.Reads(id, key) {
			continue
		}
		if all = append(all, id); i < 0 {
			cs.Members = append(cs.Members, merge.Member{Cluster: id})
		}
	}
	return all
}

// assume keeps the endpoints of clusters that are only assumed to be dead, unless keepLast is off.
func (c *clusterset) assume(cs *observed.Clusterset, snapshot peers.Snapshot) {
	if c.keepLast {
		cs.SilentAssumed = snapshot.UnknownAssumed
		return
	}
	for i := range snapshot.Expired {
		snapshot.Expired[i].Slices, snapshot.Expired[i].Assumed = nil, false
	}
}

// exported reports whether this cluster has an export of the name.
func (c *clusterset) exported(ctx context.Context, name types.NamespacedName) bool {
	err := c.cache.Get(ctx, name, new(mcsv1beta1.ServiceExport), &client.GetOptions{UnsafeDisableDeepCopy: new(true)})
	return err == nil
}

// homeSlices returns the slices of a Service of this cluster, sorted by name. They are read-only. Slices with the endpoints of another
// cluster are left out (C32): Cilium and Karmada attach such slices to a Service, and this cluster does not export them.
func (c *clusterset) homeSlices(ctx context.Context, service types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	all, err := slicesOf(ctx, c.cache, service)
	return slices.DeleteFunc(all, func(slice *discoveryv1.EndpointSlice) bool {
		from := slice.Labels[mcsv1beta1.LabelSourceCluster]
		return isImported(slice) || slice.AddressType == discoveryv1.AddressTypeFQDN || from != "" && from != c.home || ownership.KarmadasSlice(slice)
	}), err
}

// namesIn returns the names that peers or this cluster export in a namespace that is created or deleted (C21), or whose labels have changed. An
// export can come to be known before its namespace.
func (c *clusterset) namesIn(ctx context.Context, namespace client.Object) []ctrl.Request {
	requests := c.exporter.exportsIn(ctx, namespace)
	for _, name := range c.peers.Names(namespace.GetName()) {
		requests = append(requests, ctrl.Request{NamespacedName: name})
	}
	return requests
}

// sameName returns the name of a Service or a ServiceExport.
func sameName(_ context.Context, obj client.Object) []ctrl.Request {
	return []ctrl.Request{request(obj.GetNamespace(), obj.GetName())}
}

// introduced measures the time from the newest export of an import until now. The clocks of other
// clusters can differ, so the minimum is 0.
func (c *clusterset) introduced(of []merge.Member) {
	var newest time.Time
	for _, m := range of {
		if m.Exports() && m.Export.Created.After(newest) {
			newest = m.Export.Created.Time
		}
	}
	c.observe("export", newest)
}

// written measures the time from the change of an endpoint, which Kubernetes records on the slice,
// until now.
func (c *clusterset) written(slice *discoveryv1.EndpointSlice) {
	changed, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err == nil {
		c.observe("endpoints", changed)
	}
}

func (c *clusterset) observe(kind string, changed time.Time) {
	if changed.After(c.began) {
		importDuration.WithLabelValues(kind).Observe(max(0, c.now().Sub(changed).Seconds()))
	}
}

// gatherNative reads what this cluster has under an import's own name. svc is the Service of this
// name, and namespace its namespace, or nil.
func (c *clusterset) gatherNative(ctx context.Context, p *pass, svc *corev1.Service, namespace *corev1.Namespace) (err error) {
	n := &observed.Native{Service: svc}
	p.state.Native = n
	if n.Slices, err = c.attached(ctx, p.key); err != nil {
		return err
	}
	if n.Local, err = c.homeSlices(ctx, p.key); err != nil || namespace == nil {
		return err
	}
	active := len(n.Slices) > 0 || n.Service != nil && ownership.NativeService(n.Service)
	selected := c.natives.selector != nil && c.natives.have(namespace, p.key.Name, c.own)
	n.Vacant = p.native.left(n.Service != nil, active || selected, c.now())
	left := p.disallowed.left(selected, active, c.now(), c.grace)
	n.Allowed = selected || left > 0
	p.next(left)
	p.next(n.Vacant)
	return nil
}

// attached returns the slices that the controller attached to the Service with an import's own name.
func (c *clusterset) attached(ctx context.Context, key types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	if err := c.cache.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{indexNative: key.Name}); err != nil {
		return nil, fmt.Errorf("list the slices attached to Service %s: %w", key, err)
	}
	return slices.DeleteFunc(pointers(list.Items), func(slice *discoveryv1.EndpointSlice) bool { return !isAttached(slice) }), nil
}

// attaches reports whether endpoints of other clusters are attached to a Service.
func (r *serviceReconciler) attaches(ctx context.Context, service types.NamespacedName) bool {
	var list discoveryv1.EndpointSliceList
	err := r.cache.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{indexNative: service.Name}, client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) > 0
}
