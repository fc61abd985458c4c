package plan

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
)

// Reasons of Ready=False beyond those of mcs-api (C27), which allows others.
const (
	// ReasonForeignService: a Service that is not ours has the derived name.
	ReasonForeignService = "ForeignService"
	// ReasonNoPorts: no port that a Service could have.
	ReasonNoPorts = "NoPorts"
	// ReasonInvalidName: no Service can have the name that the annotation gives.
	ReasonInvalidName = "InvalidName"
	// ReasonInvalidIPs: ips hold nothing that is an address, or that may be a VIP.
	ReasonInvalidIPs = "InvalidIPs"
	// ReasonContested: another writer keeps setting ips back.
	ReasonContested = "Contested"
	// ReasonUnknownType: neither ClusterSetIP nor Headless.
	ReasonUnknownType = "UnknownType"
	// ReasonImportRefused: the API server refuses the import as the clusterset gives it.
	ReasonImportRefused = "ImportRefused"
	// ReasonRefused: the API server refuses the derived Service.
	ReasonRefused = "ServiceRefused"

	reasonReady    = string(mcsv1beta1.ServiceImportReasonReady)
	reasonPending  = string(mcsv1beta1.ServiceImportReasonPending)
	reasonFamilies = string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported)
)

// Reasons of events.
const (
	// EventAddressChanged: the derived Service could not get its former addresses again.
	EventAddressChanged = "AddressChanged"
	// EventEndpointsTaken: somebody led endpoints to the derived Service.
	EventEndpointsTaken = "EndpointsTakenAway"
	// EventPartlyServed: Ready, but something in the import was left out.
	EventPartlyServed = "PartlyServed"
)

// verdict is the Ready condition before it is compared with the one that stands.
type verdict struct {
	reason, message string
	notes           []string
}

func is(reason, format string, args ...any) verdict {
	return verdict{reason: reason, message: fmt.Sprintf(format, args...)}
}

// text is the message with the notes; a few of them, because an import can hold any number of faults.
func (v verdict) text() string {
	const limit = 8
	if len(v.notes) == 0 {
		return v.message
	}
	notes := v.notes
	more := ""
	if len(notes) > limit {
		notes, more = notes[:limit], fmt.Sprintf("; and %d more", len(notes)-limit)
	}
	return v.message + "; left out: " + strings.Join(notes, "; ") + more
}

// Conditions adds the conditions to changes that write nothing else: they say what is.
func Conditions(st State, d Desired, c Changes) Changes {
	if d.Ready.reason != "" && c.writes() == 0 {
		c.settle(st, d)
	}
	if st.Clusterset != nil {
		c.settleExport(st, d)
	}
	return c
}

// settle adds the condition of the import. An event goes with it only where what it says has changed (K4 tells one on every reconcile).
func (c *Changes) settle(st State, d Desired) {
	v := d.Ready
	if st.Import == nil { // It is refused.
		c.Ready = v.condition(st, metav1.Condition{})
		return
	}
	if d.YieldsIPs {
		v = is(ReasonContested, "another writer keeps setting spec.ips back to %q; wanted is %s, which is written again later: find that writer in metadata.managedFields",
			st.Import.Spec.IPs, clip(st.Contested[FieldIPs]))
	}
	v = v.of(st, d, c.Notes)
	have := st.readyNow()
	c.Ready = v.condition(st, have)
	if KarmadaManaged(st.Import) {
		return
	}
	theirs := st.readyIsTheirs(c.Ready)
	same := have.Status == c.Ready.Status && have.Reason == c.Ready.Reason && have.Message == c.Ready.Message
	news := d.Status == nil || have.Status != "" || v.bad() // that a new import of ours is well is no news
	if !same && !theirs && news {
		c.Events = append(c.Events, v.event())
	}
	edited := st.Import.DeepCopy()
	d.Status.write(&edited.Status, st.CRD)
	if st.Contested.holds(FieldClusters, clustersOf(&edited.Status)) {
		edited.Status.Clusters, edited.Status.EndpointSliceObjects = st.Import.Status.Clusters, st.Import.Status.EndpointSliceObjects
	}
	if st.CRD.Conditions && !theirs {
		setReady(&edited.Status, c.Ready)
	}
	if !equality.Semantic.DeepEqual(edited.Status, st.Import.Status) {
		c.ImportStatus = &Edit[*mcsv1beta1.ServiceImport]{st.Import, edited}
	}
}

// readyNow is the condition as it stands; the zero value where there is none.
func (st State) readyNow() metav1.Condition {
	if !st.CRD.Conditions {
		return st.Last
	}
	if stands := meta.FindStatusCondition(st.Import.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady)); stands != nil {
		return *stands
	}
	return metav1.Condition{}
}

// readyIsTheirs is true where the condition is left to another writer: a condition has one.
func (st State) readyIsTheirs(ready metav1.Condition) bool {
	return st.ReadyByOthers && !ImportIsOurs(st.Import) ||
		st.Contested.holds(FieldReady, shownBy(ready))
}

// setReady puts the condition in the place of the one that stands.
func setReady(status *mcsv1beta1.ServiceImportStatus, ready metav1.Condition) {
	if stands := meta.FindStatusCondition(status.Conditions, ready.Type); stands != nil {
		*stands = ready
		return
	}
	status.Conditions = append(status.Conditions, ready)
}

// of adds what the state has to say beside the verdict.
func (v verdict) of(st State, d Desired, notes []string) verdict {
	if st.ImportRefused != "" && d.Status != nil {
		v = is(ReasonImportRefused, "the API server refuses what the clusterset gives, so the import stays as it was: %s", clipTo(longest, st.ImportRefused))
	}
	v.notes = slices.Concat(v.notes, notes, d.Notes)
	if len(validation.IsDNS1123Label(st.Import.Name)) > 0 {
		v.notes = append(v.notes, "the DNS name: the import's is no label of one, so nobody can ask for it")
	}
	return v
}

// bad is true where something is wrong or was left out.
func (v verdict) bad() bool { return v.reason != reasonReady || len(v.notes) > 0 }

// generation is the import's; 0 where there is none.
func (st State) generation() int64 {
	if st.Import == nil {
		return 0
	}
	return st.Import.Generation
}

// condition keeps the time of the last transition while the status stays.
func (v verdict) condition(st State, have metav1.Condition) metav1.Condition {
	want := metav1.Condition{
		Type:               string(mcsv1beta1.ServiceImportConditionReady),
		Status:             metav1.ConditionFalse,
		Reason:             v.reason,
		Message:            v.text(),
		ObservedGeneration: st.generation(),
		LastTransitionTime: have.LastTransitionTime,
	}
	if v.reason == reasonReady {
		want.Status = metav1.ConditionTrue
	}
	if have.Status != want.Status || have.LastTransitionTime.IsZero() {
		want.LastTransitionTime = st.Now
	}
	return want
}

func (v verdict) event() Event {
	e := Event{corev1.EventTypeWarning, v.reason, v.text()}
	switch {
	case v.reason == reasonReady && len(v.notes) > 0:
		e.Reason = EventPartlyServed
	case v.reason == reasonReady, v.reason == reasonPending:
		e.Type = corev1.EventTypeNormal
	}
	return e.clipped()
}

func (e Event) clipped() Event {
	const limit = 1000 // The API's own is 1024 bytes.
	if len(e.Message) > limit {
		e.Message = strings.ToValidUTF8(e.Message[:limit], "")
	}
	return e
}
