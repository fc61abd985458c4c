package reconcile

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// The caches' indices.
const (
	indexOwner   = "import-that-owns"     // Services of ours, by the name of their import
	indexImport  = "import-that-is-meant" // EndpointSlices, by the name of their import
	indexDerived = "name-of-derived"      // ServiceImports, by the name of their derived Service
	indexService = "service"              // EndpointSlices, by the name of the Service that they belong to
	indexIPs     = "addresses"            // ServiceImports by their ips, Services by their ClusterIPs
)

func addIndices(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range []struct {
		object client.Object
		name   string
		keys   client.IndexerFunc
	}{
		{&corev1.Service{}, indexOwner, func(obj client.Object) []string { return ownership.OwnerImports(obj) }},
		{&discoveryv1.EndpointSlice{}, indexImport, byLabel(mcsv1beta1.LabelServiceName)},
		{&discoveryv1.EndpointSlice{}, indexService, byLabel(discoveryv1.LabelServiceName)},
		{&mcsv1beta1.ServiceImport{}, indexDerived, func(obj client.Object) []string {
			return []string{ownership.DerivedName(obj.(*mcsv1beta1.ServiceImport))}
		}},
		{&mcsv1beta1.ServiceImport{}, indexIPs, func(obj client.Object) []string {
			return format(desired.ImportAddresses(obj.(*mcsv1beta1.ServiceImport)))
		}},
		{&corev1.Service{}, indexIPs, func(obj client.Object) []string {
			return format(desired.ServiceAddresses(obj.(*corev1.Service)))
		}},
	} {
		if err := indexer.IndexField(ctx, index.object, index.name, index.keys); err != nil {
			return err
		}
	}
	return nil
}

func format(all []netip.Addr) []string {
	texts := make([]string, len(all))
	for i, addr := range all {
		texts[i] = addr.String()
	}
	return texts
}

// byLabel indexes objects by the value of a label.
func byLabel(label string) client.IndexerFunc {
	return func(obj client.Object) []string {
		if value := obj.GetLabels()[label]; value != "" {
			return []string{value}
		}
		return nil
	}
}

// importsOfService are the imports that own the Service and those whose derived Service has its name: Karmada's, one that the
// annotation names, and one that stands in the way. And those of any namespace whose ips name its ClusterIP, which is no VIP.
func (r *serviceReconciler) importsOfService(ctx context.Context, svc client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range ownership.OwnerImports(svc) {
		requests = append(requests, request(svc.GetNamespace(), name))
	}
	lists := [][]client.ListOption{{client.InNamespace(svc.GetNamespace()), client.MatchingFields{indexDerived: svc.GetName()}}}
	for _, ip := range desired.ServiceAddresses(svc.(*corev1.Service)) {
		lists = append(lists, []client.ListOption{client.MatchingFields{indexIPs: ip.String()}})
	}
	for _, options := range lists {
		var named mcsv1beta1.ServiceImportList
		if err := r.cache.List(ctx, &named, options...); err != nil { // Only a programming error, such as a missing index, ends here.
			log.FromContext(ctx).Error(err, "List imports of Service", "service", client.ObjectKeyFromObject(svc))
		}
		for i := range named.Items {
			requests = append(requests, request(named.Items[i].Namespace, named.Items[i].Name))
		}
	}
	return requests
}

// importsOfSlice are the import that the label names, and that whose derived Service the slice belongs to. A changed label comes as two
// objects, so that both imports are asked. For the exports that a slice of this cluster's own Services changes see enqueueOwn.
func (r *serviceReconciler) importsOfSlice(ctx context.Context, object client.Object) []ctrl.Request {
	slice := object.(*discoveryv1.EndpointSlice)
	requests := importsOfDerived(ctx, r.cache, serviceOf(slice))
	if isImported(slice) {
		requests = append(requests, request(slice.Namespace, slice.Labels[mcsv1beta1.LabelServiceName]))
	}
	return requests
}

// importsOfDerived are those that have a Service of this name as their derived one.
func importsOfDerived(ctx context.Context, cache client.Reader, service types.NamespacedName) []ctrl.Request {
	if service.Name == "" {
		return nil
	}
	var named mcsv1beta1.ServiceImportList
	if err := cache.List(ctx, &named, client.InNamespace(service.Namespace), client.MatchingFields{indexDerived: service.Name},
		client.UnsafeDisableDeepCopy); err != nil && ctx.Err() == nil { // Only a programming error, such as a missing index, ends here.
		log.FromContext(ctx).Error(err, "List imports of Service", "service", service)
	}
	var requests []ctrl.Request
	for i := range named.Items {
		requests = append(requests, request(named.Items[i].Namespace, named.Items[i].Name))
	}
	return requests
}

func request(namespace, name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
