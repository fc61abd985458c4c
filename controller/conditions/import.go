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

// ready is the condition Ready before it is compared with the current one.
type ready desired.Ready

func newReady(reason, format string, args ...any) ready {
	return ready{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// text returns the message with at most limit notes, because an import can have any number of
// faults.
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

// setImport adds the condition of the import. It emits an event only if the condition has changed
// (K4 emits one on every reconcile).
func setImport(st observed.State, d desired.Desired, c *diff.Changes) {
	v := ready(d.Ready)
	if st.Import == nil { // The API server refuses the import.
		c.Ready = v.condition(st, metav1.Condition{})
		return
	}
	if d.HeldIPs != "" {
		v = newReady(desired.ReasonContested, "another writer keeps setting spec.ips back to %q. The controller wants %s, and tries again later: find the other writer with kubectl get --show-managed-fields, and stop it",
			st.Import.Spec.IPs, brief.Clip(d.HeldIPs))
	}
	v = v.of(st, d, c.Notes)
	have := readyNow(st)
	c.Ready = v.condition(st, have)
	if isKept(st, have) {
		return
	}
	same := have.Status == c.Ready.Status && have.Reason == c.Ready.Reason && have.Message == c.Ready.Message
	if ownership.ByKarmada(st.Import) {
		// Its status stays as it is. Writes of ips, and another writer's, have events of their own.
		if !same && v.bad() && v.Reason != desired.ReasonContested {
			c.Events = append(c.Events, v.event())
		}
		return
	}
	// No event for a new import that the controller owns and that is ready: this is expected.
	if expected := d.Status != nil && have.Status == "" && !v.bad(); same || expected {
		setStatus(st, d, c)
	} else {
		setStatus(st, d, c, v.event())
	}
}

// isKept reports whether another implementation keeps the import, so that its status is not written.
// A condition that the controller set before is not left behind, but Cilium replaces it.
func isKept(st observed.State, have metav1.Condition) bool {
	keeper := ownership.Keeper(st.Import, st.Slices)
	return keeper == ownership.Cilium || keeper != "" && have.Status == ""
}

// setStatus adds the edit of the import's status, and the events of its conditions. There are none for the
// conditions that are left to another writer.
func setStatus(st observed.State, d desired.Desired, c *diff.Changes, ofReady ...desired.Event) {
	edited := st.Import.DeepCopy()
	d.Status.Write(&edited.Status, st.CRD)
	if st.ReadyByOthers && !ownership.OfImport(st.Import) { // a condition has only one writer
		ofReady = nil
	} else if st.CRD.Conditions {
		meta.SetStatusCondition(&edited.Status.Conditions, c.Ready)
	}
	ofOwn := setOwn(st, d, &edited.Status)
	edited, held := contested.Without(st.Contested, st.Import, edited)
	for _, field := range held {
		if field.Condition() == c.Ready.Type {
			ofReady = nil
		}
		ofOwn = slices.DeleteFunc(ofOwn, func(e desired.Event) bool { return e.Reason == field.Condition() })
	}
	c.Events = slices.Concat(c.Events, ofReady, ofOwn)
	if !equality.Semantic.DeepEqual(edited.Status, st.Import.Status) {
		c.ImportStatus = &diff.Edit[*mcsv1beta1.ServiceImport]{Old: st.Import, New: edited}
	}
}

// readyNow returns the current condition, or the zero value if there is none. An import of
// Karmada's has none, whatever its CRD has.
func readyNow(st observed.State) metav1.Condition {
	if !st.CRD.Conditions || ownership.ByKarmada(st.Import) {
		return st.LastReady
	}
	if stands := meta.FindStatusCondition(st.Import.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); stands != nil {
		return *stands
	}
	return metav1.Condition{}
}

// of adds the notes of the other stages, and the API server's refusal of the import.
func (v ready) of(st observed.State, d desired.Desired, notes []string) ready {
	if fault := st.Refused.Import(); fault != "" && d.Status != nil {
		v = newReady(desired.ReasonImportRefused, "the API server refused the update of this import, which stays unchanged: %s", brief.ClipTo(longest, fault))
	}
	v.Notes = slices.Concat(v.Notes, notes, d.Notes)
	if len(validation.IsDNS1123Label(st.Import.Name)) > 0 {
		v.Notes = append(v.Notes, "the DNS name: the name of the import is not a DNS label, so it cannot be resolved")
	}
	return v
}

// bad reports whether something is wrong or was left out.
func (v ready) bad() bool { return v.Reason != desired.ReasonReady || len(v.Notes) > 0 }

// generation returns the generation of the import, or 0 if there is no import.
func generation(st observed.State) int64 {
	if st.Import == nil {
		return 0
	}
	return st.Import.Generation
}

// condition builds the condition. It keeps the last transition time while the status does not
// change.
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
