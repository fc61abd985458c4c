package conditions

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/brief"
)

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
