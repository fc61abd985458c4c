package reconcile

import (
	"context"
	"crypto/rand"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/compact"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// newScheme registers the Go types under the version that the server has.
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

// cacheOptions keeps unused data out of memory: managedFields, and, if nothing is exported, the
// slices of this cluster's own Services, which are most slices. peers is the namespace of the
// peers' Secrets, or "" for a cluster that is not in a clusterset. The API server of such a cluster
// does not need to serve ServiceExports.
func cacheOptions(config *rest.Config, crd observed.CRD, scheme *runtime.Scheme, peers string) (cache.Options, error) {
	gv, err := schema.ParseGroupVersion(crd.APIVersion)
	if err != nil {
		return cache.Options{}, err
	}
	informer, err := tolerantInformer(config, gv, scheme)
	if err != nil {
		return cache.Options{}, err
	}
	slices := cache.ByObject{Transform: trimSlice(new(compact.Strings))}
	byObject := map[client.Object]cache.ByObject{&mcsv1beta1.ServiceImport{}: {Transform: markReady}, &corev1.Service{}: {Transform: trimService}}
	if peers == "" {
		slices.Label = notOfOwnServices
	} else {
		byObject[&mcsv1beta1.ServiceExport{}] = cache.ByObject{Transform: trimExport}
		byObject[&corev1.Secret{}] = cache.ByObject{
			Namespaces: map[string]cache.Config{peers: {LabelSelector: withLabel(mcs.LabelPeer)}},
		}
		byObject[&coordinationv1.Lease{}] = cache.ByObject{Field: fieldselector.OneTermEqualSelector("metadata.name", member.Name)}
	}
	byObject[&discoveryv1.EndpointSlice{}] = slices
	return cache.Options{NewInformer: informer, DefaultTransform: cache.TransformStripManagedFields(), ByObject: byObject}, nil
}

// notOfOwnServices selects the slices that can belong to an import: those with its label, and those
// of Karmada, which do not have it. It leaves out what Kubernetes makes of this cluster's own
// Services, which are most slices.
var notOfOwnServices = func() labels.Selector {
	selector, err := labels.Parse(discoveryv1.LabelManagedBy + " notin (" + strings.Join(desired.KubernetesSliceManagers, ",") + ")")
	if err != nil {
		panic(err) // the label and its values are constants
	}
	return selector
}()

// withLabel selects the objects that have a label, with any value.
func withLabel(label string) labels.Selector {
	selector, err := labels.Parse(label)
	if err != nil {
		panic(err) // the labels are constants
	}
	return selector
}

// trimService removes what is never read.
func trimService(obj any) (any, error) {
	if svc, ok := obj.(*corev1.Service); ok {
		ownership.KeepApplied(svc)
	}
	return obj, nil
}

// trimExport keeps the fields of an export that an import uses.
func trimExport(obj any) (any, error) {
	if export, ok := obj.(*mcsv1beta1.ServiceExport); ok {
		merge.KeepTrimmed(export)
	}
	return obj, nil
}

// trimSlice keeps the exported fields of a slice of this cluster's Services. Of a slice that the
// controller owns, it keeps the fields that are compared, because the endpoints are never read from
// the cache. Slices of other owners in an import are copied, so they stay complete.
func trimSlice(texts *compact.Strings) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok {
			return obj, nil // a tombstone
		}
		slice.ManagedFields = nil
		switch {
		case ownership.KarmadasSlice(slice): // it is copied
		case !isImported(slice):
			merge.TrimSlice(slice)
			texts.Slice(slice)
		case ownership.SliceIsOurs(slice, nil):
			digest.Keep(slice)
		}
		return obj, nil
	}
}

// isImported reports whether a slice has the name of an import, or was attached to the Service with
// an import's own name. All other slices belong to this cluster's own Services.
func isImported(slice *discoveryv1.EndpointSlice) bool {
	_, imported := slice.Labels[mcsv1beta1.LabelServiceName]
	return imported || isAttached(slice)
}

// isAttached reports whether a slice was attached to the Service with an import's own name.
func isAttached(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[mcs.LabelNativeOf] != "" && ownership.OfSlice(slice)
}

// syncWatch sets the readiness probe to ready when the caches are synced.
type syncWatch struct {
	cache  cache.Cache
	probes *Probes
}

// NeedLeaderElection returns false: a standby with synced caches is ready to become the leader.
func (*syncWatch) NeedLeaderElection() bool { return false }

// Start waits for the caches that addIndices created, and then sets the probe to ready.
func (w *syncWatch) Start(ctx context.Context) error {
	if w.probes != nil && w.cache.WaitForCacheSync(ctx) {
		w.probes.ready.Store(true)
	}
	return nil
}

// annotationReadyByOthers exists only in the cache. Its key has a random part that never leaves
// this process, so no user can write it.
var annotationReadyByOthers = "clusterset-dns.io/ready-by-others-" + rand.Text()

// markReady removes the managedFields of an import, which are large. It keeps one fact of them:
// that another writer has set the condition Ready.
func markReady(obj any) (any, error) {
	imp, ok := obj.(*mcsv1beta1.ServiceImport)
	if !ok || imp.ManagedFields == nil {
		// The object is already marked: a transform can run again on its own result.
		return obj, nil
	}
	if othersWroteReady(imp) {
		if imp.Annotations == nil {
			imp.Annotations = map[string]string{}
		}
		imp.Annotations[annotationReadyByOthers] = ""
	}
	imp.ManagedFields = nil
	return imp, nil
}

func readyByOthers(imp *mcsv1beta1.ServiceImport) bool {
	_, marked := imp.Annotations[annotationReadyByOthers]
	return marked
}

// The parts of an import's status that contain the message of the condition Ready. readyMessage is
// for a CRD whose conditions are a map by type, as in mcs-api. allConditions is for a CRD whose
// conditions are one value.
var (
	readyMessage = fieldpath.MakePathOrDie("status", "conditions",
		fieldpath.KeyByFields("type", string(mcsv1beta1.ServiceImportConditionReady)), "message")
	allConditions = fieldpath.MakePathOrDie("status", "conditions")
)

func othersWroteReady(imp *mcsv1beta1.ServiceImport) bool {
	for _, entry := range imp.ManagedFields {
		if entry.Manager != mcs.ControllerName && holdsReady(entry) {
			return true
		}
	}
	return false
}

func holdsReady(entry metav1.ManagedFieldsEntry) bool {
	set := new(fieldpath.Set)
	if entry.FieldsV1 == nil || set.FromJSON(entry.FieldsV1.GetRawReader()) != nil {
		return false
	}
	return set.Has(readyMessage) || set.Has(allConditions)
}
