package conditions

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/brief"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

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
