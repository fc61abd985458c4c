package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// gather reads everything that belongs to one name from the caches, by key or index. It never lists
// all objects. All of them are read-only, and not copied.
func (p *pass) gather(ctx context.Context) (err error) {
	now := p.now()
	g := &p.state
	*g = observed.State{Namespace: p.key.Namespace, Name: p.key.Name, CRD: p.crd, Now: metav1.NewTime(now), LastReady: p.ready, Memory: p.Memory}
	if g.Slices, err = p.imported(ctx, p.key); err != nil {
		return err
	}
	if g.Import, err = found(ctx, p.cache, p.key, new(mcsv1beta1.ServiceImport)); err != nil {
		return err
	}
	if p.clusterset != nil {
		if err := p.clusterset.gather(ctx, p); err != nil {
			return err
		}
	}
	var again time.Duration
	g.Contested, again = p.contested.Held(now)
	p.next(again)
	g.Former, again = p.former.of(g.Import, now)
	p.next(again)
	if g.Owned, err = p.owned(ctx, p.key); err != nil || g.Import == nil {
		return err
	}
	g.ReadyByOthers = readyByOthers(g.Import)
	return p.gatherDerived(ctx)
}

// gatherDerived reads the objects that belong to an existing import.
func (p *pass) gatherDerived(ctx context.Context) (err error) {
	state := &p.state
	derived := types.NamespacedName{Namespace: p.key.Namespace, Name: ownership.DerivedName(state.Import)}
	if state.Service, err = found(ctx, p.cache, derived, new(corev1.Service)); err != nil {
		return err
	}
	p.suspectUnlabelled()
	state.Leaks = p.associations.of(derived)
	if state.UnexpectedSlices, err = p.unexpectedSlices(ctx, p.key, derived); err != nil {
		return err
	}
	state.AddressHolders, err = p.addressHolders(ctx, state.Import, state.Former)
	return err
}

// owned returns the Services that the controller made for an import.
func (r *serviceReconciler) owned(ctx context.Context, key types.NamespacedName) ([]*corev1.Service, error) {
	var services corev1.ServiceList
	if err := r.cache.List(ctx, &services, client.InNamespace(key.Namespace), client.MatchingFields{indexOwner: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list derived Services of %s: %w", key, err)
	}
	return slices.DeleteFunc(pointers(services.Items), func(svc *corev1.Service) bool { // an import of another name can have it as its own
		return ownership.Orphaned(svc) && slices.ContainsFunc(importsOfDerived(ctx, r.cache, client.ObjectKeyFromObject(svc)), func(of ctrl.Request) bool { return of.Name != key.Name })
	}), nil
}

// imported returns the slices with the name of an import.
func (r *serviceReconciler) imported(ctx context.Context, key types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var imported discoveryv1.EndpointSliceList
	if err := r.cache.List(ctx, &imported, client.InNamespace(key.Namespace), client.MatchingFields{indexImport: key.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list slices of %s: %w", key, err)
	}
	return pointers(imported.Items), nil
}

// unexpectedSlices returns slices of the derived Service without the import's name. They belong to
// this cluster's own Services or to other imports.
func (r *serviceReconciler) unexpectedSlices(ctx context.Context, key, derived types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	all, err := slicesOf(ctx, r.cache, derived)
	return slices.DeleteFunc(all, func(slice *discoveryv1.EndpointSlice) bool {
		return slice.Labels[mcsv1beta1.LabelServiceName] == key.Name
	}), err
}

// slicesOf returns the slices in the cache that belong to a Service, sorted by name. They are
// read-only.
func slicesOf(ctx context.Context, cache client.Reader, service types.NamespacedName) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	if err := cache.List(ctx, &list, client.InNamespace(service.Namespace), client.MatchingFields{indexService: service.Name},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list slices of Service %s: %w", service, err)
	}
	all := pointers(list.Items)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// suspectUnlabelled runs before the first plan of an import that the controller owns. It records
// the slices that have the import's name and do not belong to its Service: they may have lost the
// label while no controller ran. It omits slices with generation 1, whose labels and endpoints were
// never changed.
func (p *pass) suspectUnlabelled() {
	state := p.state
	if !ownership.OfImport(state.Import) || state.Import.Spec.Type != mcsv1beta1.ClusterSetIP || ownership.KindOf(state.Import, state.Service) != ownership.Ours || p.seen {
		return
	}
	p.seen = true
	service := client.ObjectKeyFromObject(state.Service)
	for _, slice := range state.Slices {
		if slice.Generation > 1 && serviceOf(slice) != service {
			p.associations.suspect(service, slice)
		}
	}
}

func pointers[T any](all []T) []*T {
	pointers := make([]*T, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	return pointers
}

// found returns the object, which is read-only and not copied, or nil if it does not exist.
func found[T client.Object](ctx context.Context, cache client.Reader, key types.NamespacedName, obj T) (T, error) {
	var none T
	err := cache.Get(ctx, key, obj, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read %T %s: %w", obj, key, err)
	}
	return obj, nil
}

// addressHolders returns the Services that have one of the import's ips, or one of its former ips.
func (r *serviceReconciler) addressHolders(ctx context.Context, imp *mcsv1beta1.ServiceImport, former string) ([]*corev1.Service, error) {
	var holders []*corev1.Service
	for _, ip := range desired.ImportAddresses(imp, former) {
		var services corev1.ServiceList
		if err := r.cache.List(ctx, &services, client.MatchingFields{indexIPs: ip.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Services with the address %s: %w", ip, err)
		}
		holders = append(holders, pointers(services.Items)...)
	}
	return holders, nil
}
