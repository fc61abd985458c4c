package conditions

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

const (
	conditionValid    = string(mcsv1beta1.ServiceExportConditionValid)
	conditionReady    = string(mcsv1beta1.ServiceExportConditionReady)
	conditionConflict = string(mcsv1beta1.ServiceExportConditionConflict)
)

// exportKinds are the conditions of a ServiceExport that the controller writes.
var exportKinds = []string{conditionValid, conditionReady, conditionConflict, conditionPreference, conditionNativeName, conditionProbed}

// setExport adds the conditions of this cluster's ServiceExport. It reports what is wrong with the
// export at once, and everything else when nothing else remains to be written, because the other
// conditions report the actual state.
func setExport(st observed.State, d desired.Desired, c *diff.Changes) {
	export := st.Clusterset.Export
	if export == nil || export.DeletionTimestamp != nil {
		return
	}
	home := homeOf(st)
	if home.Exports() && c.Writes() > 0 {
		return
	}
	edited := export.DeepCopy()
	e := exportConditions{edited, st.Now}
	valid := e.setValid(home)
	e.setReady(st, home, valid)
	if !d.Held || !valid {
		e.setConflict(d.Merged, valid)
	}
	e.setPreference()
	e.setAnswer(conditionNativeName, mcs.AnnotationNativeName)
	e.setAnswer(conditionProbed, mcs.AnnotationProbe)
	c.ExportConditions = slices.DeleteFunc(slices.Clone(edited.Status.Conditions), func(c metav1.Condition) bool {
		return !slices.Contains(exportKinds, c.Type)
	})
	if edited, _ = contested.Without(st.Contested, export, edited); equality.Semantic.DeepEqual(export.Status, edited.Status) {
		return
	}
	c.ExportStatus = &diff.Edit[*mcsv1beta1.ServiceExport]{Old: export, New: edited}
	if st.Clusterset.Namespace { // A namespace that is being deleted accepts no events.
		c.ExportEvents = exportEvents(export.Status.Conditions, edited.Status.Conditions)
	}
}

// homeOf returns what this cluster exports under the name.
func homeOf(st observed.State) merge.Member {
	for _, m := range st.Clusterset.Members {
		if m.Cluster == st.Clusterset.Home {
			return m
		}
	}
	return merge.Member{Cluster: st.Clusterset.Home}
}

// exportConditions edits the conditions of a ServiceExport. Conditions of other writers stay.
type exportConditions struct {
	export *mcsv1beta1.ServiceExport
	now    metav1.Time
}

func (e exportConditions) set(kind string, status metav1.ConditionStatus, reason, format string, args ...any) {
	meta.SetStatusCondition(&e.export.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...),
		ObservedGeneration: e.export.Generation, LastTransitionTime: e.now,
	})
}

// setValid sets the condition Valid and reports whether there is a Service to export (C2, C4, C8).
func (e exportConditions) setValid(home merge.Member) bool {
	switch {
	case home.Service == nil:
		e.set(conditionValid, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoService),
			"Service %s does not exist in namespace %s: create it, or delete this ServiceExport", e.export.Name, e.export.Namespace)
	case home.Service.External:
		e.set(conditionValid, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonInvalidServiceType),
			"Service %s has the type ExternalName, which cannot be exported: use another type", e.export.Name)
	default:
		e.set(conditionValid, metav1.ConditionTrue, string(mcsv1beta1.ServiceExportReasonValid), "Service %s can be exported", e.export.Name)
		return true
	}
	return false
}

// setReady sets the condition Ready: whether peers find what they need in this cluster. Peers pull
// from this cluster, so the reason is Ready, not Exported.
func (e exportConditions) setReady(st observed.State, home merge.Member, valid bool) {
	failed := string(mcsv1beta1.ServiceExportReasonFailed)
	switch {
	case home.Service == nil:
		e.set(conditionReady, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonPending), "waiting for Service %s", e.export.Name)
	case !valid:
		e.set(conditionReady, metav1.ConditionFalse, failed, "nothing is exported: see the condition %s", conditionValid)
	case !st.Clusterset.Namespace:
		e.set(conditionReady, metav1.ConditionFalse, failed, "namespace %s is being deleted, or not known yet", e.export.Namespace)
	case st.Clusterset.Unselected && mcs.System(e.export.Namespace, e.export.Name):
		e.set(conditionReady, metav1.ConditionFalse, failed,
			"nothing is exported, because names in kube-*, in openshift* and default/kubernetes belong to a cluster itself, and --export-namespaces of the controller does not name this namespace: delete this ServiceExport")
	case st.Clusterset.Unselected:
		e.set(conditionReady, metav1.ConditionFalse, failed,
			"nothing is exported, because --export-namespaces of the controller does not select namespace %s: label the namespace, or delete this ServiceExport", e.export.Namespace)
	case st.Refused.Import() != "":
		e.set(conditionReady, metav1.ConditionFalse, failed, "the API server refused the ServiceImport: %s", brief.ClipTo(longest, st.Refused.Import()))
	case st.Import != nil && !ownership.OfImport(st.Import):
		e.set(conditionReady, metav1.ConditionFalse, failed, "%s", notManaged(st))
	case refusedHere(st) != "":
		e.set(conditionReady, metav1.ConditionFalse, failed, "the API server refused EndpointSlices of this Service: %s", brief.ClipTo(longest, refusedHere(st)))
	default:
		e.set(conditionReady, metav1.ConditionTrue, string(mcsv1beta1.ServiceExportReasonReady), "%s", readers(home.Export.Consumers))
	}
}

// notManaged describes an import of the name that belongs to somebody else.
func notManaged(st observed.State) string {
	if other := ownership.Other(st.Import, st.Slices); other != "" {
		return fmt.Sprintf("ServiceImport %s is %s's, so this controller leaves it alone and exports no endpoints: export the name with one of the two systems only", st.Name, other)
	}
	return fmt.Sprintf("ServiceImport %s exists and the controller does not manage it, so no endpoints are exported: delete it, and the controller creates it again; or give it the label %s=%s",
		st.Name, mcs.LabelManagedBy, mcs.ControllerName)
}

// readers describes which clusters import the name.
func readers(c merge.Consumers) string {
	if c == nil {
		return "peers can read the endpoints"
	}
	text := "only these clusters import the name: " + c.String()
	if faults := c.Faults(); len(faults) > 0 {
		text += "; left out: " + strings.Join(faults, "; ")
	}
	return brief.ClipTo(longest, text)
}

// refusedHere returns why the API server refused slices that peers read, or "" if it refused none.
func refusedHere(st observed.State) string {
	own := st.Name + "." + st.Clusterset.Home + "."
	first := ""
	for of := range st.Refused {
		if of.Kind == observed.Slice && strings.HasPrefix(of.Name, own) && (first == "" || of.Name < first) {
			first = of.Name
		}
	}
	return st.Refused.Slice(first)
}

// setConflict reports on each export of the name where the exports disagree (C10).
func (e exportConditions) setConflict(m merge.Merged, valid bool) {
	switch {
	case !valid: // An invalid export takes no part in the merge.
		meta.RemoveStatusCondition(&e.export.Status.Conditions, conditionConflict)
	case len(m.Reasons) > 0:
		e.set(conditionConflict, metav1.ConditionTrue, strings.Join(m.Reasons, ","), "%s", m.Message)
	default:
		e.set(conditionConflict, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoConflicts), "%s", noConflict(m))
	}
}

func noConflict(m merge.Merged) string {
	text := "all exports agree"
	if len(m.Notes) > 0 {
		text += "; left out: " + strings.Join(m.Notes, "; ")
	}
	return brief.ClipTo(longest, text)
}

// longest is the number of bytes of a condition's message that a person can still read. The API's
// own limit is 32 KiB.
const longest = 2000

// exportEvents returns an event for each condition that has become worse, or good again. There is
// no event for a new export without problems.
func exportEvents(had, have []metav1.Condition) []desired.Event {
	var events []desired.Event
	for _, kind := range exportKinds {
		before, after := meta.FindStatusCondition(had, kind), meta.FindStatusCondition(have, kind)
		if after == nil || before != nil && before.Status == after.Status && before.Reason == after.Reason && before.Message == after.Message {
			continue
		}
		good := (after.Status == metav1.ConditionTrue) != (kind == conditionConflict)
		if good && before == nil || kind == conditionReady && !meta.IsStatusConditionTrue(have, conditionValid) {
			continue
		}
		event := desired.Event{Type: corev1.EventTypeNormal, Reason: after.Reason, Message: after.Message}
		if !good {
			event.Type = corev1.EventTypeWarning
		}
		if kind == conditionConflict && !good {
			event.Reason = conditionConflict // A conflict can have up to nine reasons.
		}
		events = append(events, event.Clipped())
	}
	return events
}
