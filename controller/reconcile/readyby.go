package reconcile

import (
	"crypto/rand"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

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
