package conditions

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// These are conditions of an import whose clusters have an order, or whose own name leads to other
// clusters, or whose endpoints stay although their clusters are silent, or are connected to all the
// time. They are also on an export whose annotations are malformed.
const (
	conditionPreference = "ClusterPreference"
	conditionNativeName = "NativeName"
	conditionKept       = "EndpointsKept"
	conditionProbed     = "EndpointsProbed"
)

// Reasons of the condition ClusterPreference.
const (
	// reasonPreferred means that the first entry of the list is used.
	reasonPreferred = "Preferred"
	// reasonFallback means that a later entry is used.
	reasonFallback = "Fallback"
	// reasonNotEnoughReady means that no entry has enough ready endpoints.
	reasonNotEnoughReady = "NotEnoughReady"
	// reasonMalformed means that an annotation has no effect.
	reasonMalformed = "MalformedAnnotation"
)

// setOwn sets the conditions of this project on an import that the controller owns. It returns the
// events.
func setOwn(st observed.State, d desired.Desired, status *mcsv1beta1.ServiceImportStatus) []desired.Event {
	if !st.CRD.Conditions || d.Status == nil {
		return nil
	}
	o := own{st, status}
	events := slices.Concat(o.set(conditionPreference, preferenceWanted(d.Preferred)), o.set(conditionKept, keptWanted(d.Kept)), o.set(conditionProbed, probedWanted(d.Checked)))
	if d.Native.Condition.Reason != "" {
		events = append(events, o.set(conditionNativeName, nativeWanted(d.Native))...)
	}
	return events
}

// own is the status of an import on which a condition of this project is set.
type own struct {
	observed.State
	status *mcsv1beta1.ServiceImportStatus
}

// expected are the reasons of a new condition that is no news.
var expected = []string{reasonPreferred, desired.NativeOwnService, desired.NativeAttached, reasonAllAccept, reasonNothingToProbe}

// set sets a condition, or removes it if want is nil. It returns an event if the condition has
// changed, except for a new one that is good.
func (o own) set(kind string, want *metav1.Condition) []desired.Event {
	had := meta.FindStatusCondition(slices.Clone(o.status.Conditions), kind)
	if want == nil {
		meta.RemoveStatusCondition(&o.status.Conditions, kind)
	} else {
		want.Type, want.ObservedGeneration, want.LastTransitionTime = kind, o.Import.Generation, o.Now
		meta.SetStatusCondition(&o.status.Conditions, *want)
	}
	if want == nil || had != nil && had.Reason == want.Reason && had.Message == want.Message || had == nil && slices.Contains(expected, want.Reason) {
		return nil
	}
	event := desired.Event{Type: corev1.EventTypeNormal, Reason: kind, Message: want.Message}
	if want.Status == metav1.ConditionFalse {
		event.Type = corev1.EventTypeWarning
	}
	return []desired.Event{event.Clipped()}
}

// preferenceWanted returns the condition of an import, or nil if there is no preference.
func preferenceWanted(p desired.Preferred) *metav1.Condition {
	if len(p.Policy.Entries)+len(p.Policy.Faults) == 0 {
		return nil
	}
	want := &metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonPreferred, Message: choiceOf(p)}
	switch {
	case len(p.Policy.Faults) > 0:
		want.Status, want.Reason = metav1.ConditionFalse, reasonMalformed
		want.Message = brief.ClipTo(longest, strings.Join(append(p.Policy.Faults, want.Message), "; "))
	case p.Choice.Entry == len(p.Policy.Entries):
		want.Status, want.Reason = metav1.ConditionFalse, reasonNotEnoughReady
	case p.Choice.Entry > 0:
		want.Reason = reasonFallback
	}
	return want
}

// keptWanted returns the condition of an import whose endpoints stay although their clusters are
// silent, or nil.
func keptWanted(clusters []string) *metav1.Condition {
	if len(clusters) == 0 {
		return nil
	}
	return &metav1.Condition{
		Status: metav1.ConditionTrue, Reason: "ClusterSilent",
		Message: "no other cluster has a ready endpoint, so the last known endpoints stay of clusters that do not answer and are not proven to be dead: " + strings.Join(brief.List(clusters), ", "),
	}
}

// choiceOf describes which clusters get the traffic, and why. It contains no number of endpoints:
// each change of it would be a write.
func choiceOf(p desired.Preferred) string {
	n, clusters := len(p.Policy.Entries), strings.Join(brief.List(p.Clusters), ", ")
	switch {
	case n == 0:
		return "the traffic goes to all clusters that export the name"
	case p.Choice.Entry == n && clusters == "":
		return "no cluster of the list exports the name, so nothing gets the traffic"
	case p.Choice.Entry == n && p.Choice.Again > 0:
		return fmt.Sprintf("no entry of the list has had %d ready endpoints for %s yet, so the traffic goes to all clusters of the list: %s", p.Policy.MinReady, p.Policy.ReturnAfter, clusters)
	case p.Choice.Entry == n:
		return fmt.Sprintf("no entry of the list has the required number of ready endpoints, %d, so the traffic goes to all clusters of the list: %s", p.Policy.MinReady, clusters)
	}
	text := fmt.Sprintf("entry %d of %d, %s, is used: the traffic goes to %s", p.Choice.Entry+1, n, p.Policy.Entries[p.Choice.Entry], clusters)
	if p.Pending {
		text += ", and still to the other clusters, because the endpoints of these are not written yet"
	}
	return text
}

// setPreference reports malformed annotations of the export, in the cluster of its author.
func (e exportConditions) setPreference() {
	faults := preference.Read(e.export.Annotations).Faults()
	if len(faults) == 0 {
		meta.RemoveStatusCondition(&e.export.Status.Conditions, conditionPreference)
		return
	}
	e.set(conditionPreference, metav1.ConditionFalse, reasonMalformed, "%s", brief.ClipTo(longest, strings.Join(faults, "; ")))
}

// nativeWanted returns the condition of an import, or nil if its own name is not wanted.
func nativeWanted(n desired.Native) *metav1.Condition {
	want := &metav1.Condition{Status: metav1.ConditionFalse, Reason: n.Condition.Reason, Message: ready(n.Condition).text()}
	switch want.Reason {
	case desired.NativeUnused:
		return nil
	case desired.NativeOwnService, desired.NativeAttached:
		want.Status = metav1.ConditionTrue
		choice := choiceOf(n.Preferred)
		if n.Condition.Reason == desired.NativeAttached && n.Preferred.Choice.Entry == len(n.Preferred.Policy.Entries) {
			choice = strings.Replace(choice, "nothing gets the traffic", "only the endpoints of this cluster get traffic", 1)
		}
		want.Message = ready{Message: n.Condition.Message + ": " + choice, Notes: n.Condition.Notes}.text()
	}
	want.Message = brief.ClipTo(longest, want.Message)
	return want
}

// setAnswer reports an annotation of the export that is neither "true" nor "false", in the cluster of
// its author.
func (e exportConditions) setAnswer(kind, key string) {
	if mcs.AnswerOf(e.export.Annotations, key) != mcs.Malformed {
		meta.RemoveStatusCondition(&e.export.Status.Conditions, kind)
		return
	}
	e.set(kind, metav1.ConditionFalse, reasonMalformed,
		"the annotation %s of this ServiceExport is %q, want \"true\" or \"false\", so it has no effect", key, brief.Clip(e.export.Annotations[key]))
}

// Reasons of the condition EndpointsProbed.
const (
	// reasonAllAccept means that no endpoint fails.
	reasonAllAccept = "AllAccept"
	// reasonSomeFail means that the endpoints that fail get no traffic.
	reasonSomeFail = "SomeFail"
	// reasonNoneAccepts means that failing endpoints get traffic, because the name has no other.
	reasonNoneAccepts = "NoneAccepts"
	// reasonNothingToProbe means that no endpoint of another cluster has a TCP port.
	reasonNothingToProbe = "NothingToProbe"
	// reasonProbesOff means that a flag of the controller prevents it.
	reasonProbesOff = "ProbesOff"
)

// probedWanted returns the condition of an import whose endpoints are connected to all the time, or
// nil. It contains no time and no number of healthy endpoints: each change of them would be a write.
func probedWanted(c desired.Checked) *metav1.Condition {
	if !c.Asked {
		return nil
	}
	want := &metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonAllAccept, Message: "all ready endpoints of other clusters accept TCP connections from this cluster, or were not tested often enough yet"}
	failing := fmt.Sprintf("%d ready endpoints of other clusters do not accept TCP connections from this cluster: %s", len(c.Failing), strings.Join(brief.List(c.Failing), ", "))
	switch {
	case c.Off:
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, reasonProbesOff, "the controller of this cluster has the flag --probe-peers=false, so no endpoint is tested"
	case len(c.Targets) == 0:
		want.Reason, want.Message = reasonNothingToProbe, "no other cluster has a ready endpoint with a TCP port"
	case len(c.Failing) == 0:
	case c.Stay:
		want.Status, want.Reason = metav1.ConditionFalse, reasonNoneAccepts
		want.Message = failing + ". They get traffic nevertheless, because no other endpoint of the same address family is ready. Check routes, firewalls and network policies between the pods of both clusters"
	default:
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, reasonSomeFail, failing+". They get no traffic until they accept connections again"
	}
	if c.More {
		want.Message += fmt.Sprintf("; only %d endpoints of a cluster are tested", datapath.MaxChecked)
	}
	want.Message = brief.ClipTo(longest, want.Message)
	return want
}
