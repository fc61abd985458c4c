package conditions

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// ready is the condition Ready before it is compared with the one that stands.
type ready desired.Ready

func newReady(reason, format string, args ...any) ready {
	return ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// text is the message with the notes; a few of them, because an import can hold any number of faults.
func (v ready) text() string {
	const limit = 8
	if len(v.Notes) == 0 {
		return v.Message
	}
	notes := v.Notes
	more := ""
	if len(notes) > limit {
		notes, more = notes[:limit], fmt.Sprintf("; and %d more", len(notes)-limit)
	}
	return v.Message + "; left out: " + strings.Join(notes, "; ") + more
}

// Set adds the conditions of the import, and those of this cluster's export.
func Set(st observed.State, d desired.Desired, c diff.Changes) diff.Changes {
	if d.Ready.Reason != "" && c.Writes() == 0 {
		setImport(st, d, &c)
	}
	if st.Clusterset != nil {
		setExport(st, d, &c)
	}
	return c
}

// setImport adds the condition of the import. An event is emitted only where the condition has changed (K4 emits one on every reconcile).
func setImport(st observed.State, d desired.Desired, c *diff.Changes) {
	v := ready(d.Ready)
	if st.Import == nil { // It is refused.
		c.Ready = v.condition(st, metav1.Condition{})
		return
	}
	if d.YieldsIPs {
		v = newReady(desired.ReasonContested, "another writer keeps setting spec.ips back to %q; wanted is %s, which is written again later: find that writer in metadata.managedFields",
			st.Import.Spec.IPs, brief.Clip(st.Contested[contested.FieldIPs]))
	}
	v = v.of(st, d, c.Notes)
	have := readyNow(st)
	c.Ready = v.condition(st, have)
	if ownership.ByKarmada(st.Import) {
		return
	}
	theirs := readyIsTheirs(st, c.Ready)
	same := have.Status == c.Ready.Status && have.Reason == c.Ready.Reason && have.Message == c.Ready.Message
	news := d.Status == nil || have.Status != "" || v.bad() // a new import of ours that is ready is expected
	if !same && !theirs && news {
		c.Events = append(c.Events, v.event())
	}
	edited := st.Import.DeepCopy()
	d.Status.Write(&edited.Status, st.CRD)
	if st.Contested.HoldsClusters(&edited.Status) {
		edited.Status.Clusters, edited.Status.EndpointSliceObjects = st.Import.Status.Clusters, st.Import.Status.EndpointSliceObjects
	}
	if st.CRD.Conditions && !theirs {
		setReady(&edited.Status, c.Ready)
	}
	if !equality.Semantic.DeepEqual(edited.Status, st.Import.Status) {
		c.ImportStatus = &diff.Edit[*mcsv1beta1.ServiceImport]{Old: st.Import, New: edited}
	}
}

// readyNow is the condition as it stands; the zero value where there is none.
func readyNow(st observed.State) metav1.Condition {
	if !st.CRD.Conditions {
		return st.LastReady
	}
	if stands := meta.FindStatusCondition(st.Import.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); stands != nil {
		return *stands
	}
	return metav1.Condition{}
}

// readyIsTheirs is true where the condition is left to another writer: a condition has one.
func readyIsTheirs(st observed.State, ready metav1.Condition) bool {
	return st.ReadyByOthers && !ownership.OfImport(st.Import) ||
		st.Contested.HoldsReady(ready)
}

// setReady replaces the condition of that type.
func setReady(status *mcsv1beta1.ServiceImportStatus, ready metav1.Condition) {
	if stands := meta.FindStatusCondition(status.Conditions, ready.Type); stands != nil {
		*stands = ready
		return
	}
	status.Conditions = append(status.Conditions, ready)
}

// of adds the notes of the other stages, and what the API server refuses.
func (v ready) of(st observed.State, d desired.Desired, notes []string) ready {
	if st.ImportRefused != "" && d.Status != nil {
		v = newReady(desired.ReasonImportRefused, "the API server refuses what the clusterset gives, so the import stays as it was: %s", brief.ClipTo(longest, st.ImportRefused))
	}
	v.Notes = slices.Concat(v.Notes, notes, d.Notes)
	if len(validation.IsDNS1123Label(st.Import.Name)) > 0 {
		v.Notes = append(v.Notes, "the DNS name: the import's is no label of one, so nobody can ask for it")
	}
	return v
}

// bad is true where something is wrong or was left out.
func (v ready) bad() bool { return v.Reason != desired.ReasonReady || len(v.Notes) > 0 }

// generation is the import's; 0 where there is none.
func generation(st observed.State) int64 {
	if st.Import == nil {
		return 0
	}
	return st.Import.Generation
}

// condition keeps the time of the last transition while the status stays.
func (v ready) condition(st observed.State, have metav1.Condition) metav1.Condition {
	want := metav1.Condition{
		Type:               string(mcsv1beta1.ServiceImportConditionReady),
		Status:             metav1.ConditionFalse,
		Reason:             v.Reason,
		Message:            v.text(),
		ObservedGeneration: generation(st),
		LastTransitionTime: have.LastTransitionTime,
	}
	if v.Reason == desired.ReasonReady {
		want.Status = metav1.ConditionTrue
	}
	if have.Status != want.Status || have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = st.Now
	}
	return want
}

func (v ready) event() desired.Event {
	e := desired.Event{Type: corev1.EventTypeWarning, Reason: v.Reason, Message: v.text()}
	switch {
	case v.Reason == desired.ReasonReady && len(v.Notes) > 0:
		e.Reason = desired.EventPartlyServed
	case v.Reason == desired.ReasonReady, v.Reason == desired.ReasonPending:
		e.Type = corev1.EventTypeNormal
	}
	return e.Clipped()
}
