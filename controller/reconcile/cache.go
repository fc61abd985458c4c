package reconcile

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// newScheme registers the one Go type under the version that the server has.
func newScheme(crd observed.CRD) (*runtime.Scheme, error) {
	gv, err := schema.ParseGroupVersion(crd.APIVersion)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(gv, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{},
		&mcsv1beta1.ServiceExport{}, &mcsv1beta1.ServiceExportList{})
	metav1.AddToGroupVersion(scheme, gv)
	return scheme, clientgoscheme.AddToScheme(scheme)
}

// cacheOptions keep out of memory what nobody reads: managedFields, and the slices of this cluster's own Services, which are
// most of them. exports says whether the API server has to serve ServiceExports.
func cacheOptions(config *rest.Config, crd observed.CRD, scheme *runtime.Scheme, exports bool) (cache.Options, error) {
	gv, err := schema.ParseGroupVersion(crd.APIVersion)
	if err != nil {
		return cache.Options{}, err
	}
	informer, err := tolerantInformer(config, gv, scheme)
	if err != nil {
		return cache.Options{}, err
	}
	imported, err := labels.NewRequirement(mcsv1beta1.LabelServiceName, selection.Exists, nil)
	if err != nil {
		panic(err) // The label is a constant.
	}
	byObject := map[client.Object]cache.ByObject{
		&mcsv1beta1.ServiceImport{}:  {Transform: markReady},
		&discoveryv1.EndpointSlice{}: {Label: labels.NewSelector().Add(*imported), Transform: sealSlice},
	}
	if exports {
		byObject[&mcsv1beta1.ServiceExport{}] = cache.ByObject{Transform: sealExport}
	}
	return cache.Options{NewInformer: informer, DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject}, nil
}

// sealExport keeps of an export what an import takes over.
func sealExport(obj any) (any, error) {
	if export, ok := obj.(*mcsv1beta1.ServiceExport); ok {
		merge.SealExport(export)
	}
	return obj, nil
}

// sealSlice keeps of a slice of ours what is compared: its endpoints are never read here. Those of others are copied.
func sealSlice(obj any) (any, error) {
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && ownership.SliceIsOurs(slice, nil) {
		diff.SealSlice(slice)
	}
	return obj, nil
}

// syncWatch makes the probes ready.
type syncWatch struct {
	cache  cache.Cache
	probes *Probes
}

// NeedLeaderElection is false: a standby with filled caches is ready to take over.
func (*syncWatch) NeedLeaderElection() bool { return false }

// Start waits for the caches, which the indices have asked for.
func (w *syncWatch) Start(ctx context.Context) error {
	if w.probes != nil && w.cache.WaitForCacheSync(ctx) {
		w.probes.ready.Store(true)
	}
	return nil
}
