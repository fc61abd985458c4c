package join_test

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"
)

// TestLeaveAllWithDeadContexts: a context that does not answer is a fault only if it can have a link.
func TestLeaveAllWithDeadContexts(t *testing.T) {
	f := newFixture(t)
	f.runs(0, []string{"join", "member1", "member2", "--wait=0"}, "created")
	contexts := f.Config.Contexts
	f.Config.Contexts = map[string]*api.Context{"member1": contexts["member1"], "dead": contexts["dead"]}
	f.WriteConfig()
	f.runs(1, []string{"leave", "member1", "--all"}, "cannot reach the cluster of context dead", "StillJoined")
	f.Config.Contexts["member2"] = contexts["member2"]
	f.WriteConfig()
	f.runs(0, []string{"leave", "member1", "--all"}, "deleted", "note: the ID of the cluster of context dead is not known")
}
