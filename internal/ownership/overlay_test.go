package ownership

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Covers says without a copy what Overlay would change, for all pairs of these labels and annotations.
func TestCoversIsAnOverlayWithoutAnEffect(t *testing.T) {
	var all []*discoveryv1.EndpointSlice
	labels := []map[string]string{
		nil, {"a": "1"}, {"a": "2"}, {"a": "1", "theirs": "x"}, {"a": "1", mcs.LabelStandby: "true"}, {"a": "1", mcs.LabelStandby: "reserve"}, {"a": "1", mcs.ProxyLabels[0]: ""},
	}
	annotations := []map[string]string{
		nil, {}, {mcs.AnnotationTerms: "{}"}, {mcs.AnnotationTerms: "{ }"}, {mcs.AnnotationTerms: "{}", "theirs": "x"}, {corev1.EndpointsLastChangeTriggerTime: "now"}, {mcs.AnnotationFailing: ""},
	}
	for _, l := range labels {
		for _, a := range annotations {
			all = append(all, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: l, Annotations: a}})
		}
	}
	covered := 0
	for _, have := range all {
		for _, want := range all {
			if _, never := want.Labels[mcs.ProxyLabels[0]]; never {
				continue
			}
			edited := Overlay(have, want)
			same := maps.Equal(have.Labels, edited.Labels) && maps.Equal(have.Annotations, edited.Annotations)
			if Covers(have, want) != same {
				t.Error(fmt.Sprint(have.Labels, have.Annotations, " and ", want.Labels, want.Annotations, ": the overlay changes nothing: ", same))
			}
			if same {
				covered++
			}
		}
	}
	if covered == 0 || covered == len(all)*len(all) {
		t.Errorf("%d of %d are covered", covered, len(all)*len(all))
	}
}

// HasOwner says without a copy what WithOwner would change.
func TestHasOwnerIsWithOwnerWithoutAnEffect(t *testing.T) {
	imp := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "foo", UID: "1"}}
	version := mcsv1beta1.GroupVersion.String()
	owner := WithOwner(nil, imp, version)[0]
	other := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		ref := *owner.DeepCopy()
		change(&ref)
		return ref
	}
	all := []metav1.OwnerReference{
		owner, other(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = new(true) }),
		other(func(r *metav1.OwnerReference) { r.UID = "2" }), other(func(r *metav1.OwnerReference) { r.Controller = nil }),
		other(func(r *metav1.OwnerReference) { r.Controller = new(false) }), other(func(r *metav1.OwnerReference) { r.Name = "bar" }),
		other(func(r *metav1.OwnerReference) { r.APIVersion = mcsv1beta1.GroupName + "/v1alpha1" }), other(func(r *metav1.OwnerReference) { r.Kind = "Service" }),
	}
	for _, first := range all {
		for _, second := range all {
			for _, owners := range [][]metav1.OwnerReference{nil, {first}, {first, second}} {
				same := equality.Semantic.DeepEqual(owners, WithOwner(owners, imp, version))
				if HasOwner(owners, imp, version) != same {
					t.Errorf("%+v: WithOwner changes nothing: %t", owners, same)
				}
			}
		}
	}
}
