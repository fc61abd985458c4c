package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

type groupVersion = schema.GroupVersion

// muteAfter is when peers treat a controller as silent: controller/peers/heartbeat.go.
const muteAfter = 100 * time.Second

func (f *facts) checkClusterID() Check {
	c := Check{ID: ClusterID, Cluster: f.context, Link: output.Docs + "join.md#the-cluster-id"}
	switch id := f.identity.value; {
	case f.identity.err != nil:
		return c.unknown(f.identity.err)
	case id.ID == "":
		c = c.is(Failed, fmt.Sprintf("no controller has announced a cluster ID in namespace %s", system.Namespace))
		c.Advice = "If its pods run, set the ID by the chart's value cluster.id, or by the flag --cluster-id."
		if fix := f.setID(); fix != "" {
			c.Fix = []string{fix}
		}
		return c
	case mcs.ClusterIDFault(id.ID) != "":
		return c.is(Failed, fmt.Sprintf("the ID %s %s", id.ID, mcs.ClusterIDFault(id.ID))).advise("Change the ID.")
	default:
		return c.ok(id.ID)
	}
}

// setID is the command that gives a controller without an ID the name of its context, or "". A release
// of Helm would set the flag back.
func (f *facts) setID() string {
	d := f.controller.value
	if d == nil || d.Labels[mcs.LabelManagedBy] == "Helm" || mcs.ClusterIDFault(f.context) != "" || len(d.Spec.Template.Spec.Containers) == 0 {
		return ""
	}
	args := d.Spec.Template.Spec.Containers[0].Args
	if len(args) == 0 || strings.Contains(strings.Join(args, " "), "--cluster-id") {
		return ""
	}
	patch, err := json.Marshal([]map[string]string{{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--cluster-id=" + f.context}})
	if err != nil {
		return ""
	}
	return output.Kubectl(f.context, "patch", "deployment", d.Name, "--namespace", d.Namespace, "--type=json", "--patch", string(patch))
}

func (f *facts) checkHeartbeat() Check {
	c := Check{ID: Heartbeat, Cluster: f.context, Link: output.Docs + "silent-clusters.md"}
	switch id := f.identity.value; {
	case f.identity.err != nil:
		return c.unknown(f.identity.err)
	case id.Heartbeat.IsZero():
		return c.unknown(errors.New("the controller has written no heartbeat"))
	default:
		// By the clock of the API server: the local clock can be wrong.
		age := f.now.Add(f.server.value.Ahead).Sub(id.Heartbeat)
		if age > muteAfter {
			return c.is(Failed, fmt.Sprintf("the controller wrote its last heartbeat at %s, more than %v ago: peers treat it as silent", id.Heartbeat.UTC().Format(time.RFC3339), muteAfter)).
				advise("Look at its pods and their log: " + output.Kubectl(f.context, "get", "pods", "--namespace", system.Namespace))
		}
		return c.ok("the last heartbeat is recent")
	}
}

// passing are reasons of peers that are expected for a while.
var passing = map[string]bool{"Syncing": true, "Leaving": true, "": true}

func (f *facts) checkPeers() Check {
	c := Check{ID: Peers, Cluster: f.context, Link: output.Docs + "join.md#see-whether-it-works"}
	if f.peers.err != nil {
		return c.unknown(f.peers.err)
	}
	var connected int
	var broken, waiting []string
	for _, p := range f.peers.value {
		switch {
		case p.Connected:
			connected++
		case passing[p.Reason]:
			waiting = append(waiting, p.ID)
		default:
			broken = append(broken, fmt.Sprintf("%s is %s: %s", p.ID, p.Reason, p.Message))
		}
	}
	detail := fmt.Sprintf("%d of %s connected", connected, output.Count(len(f.peers.value), "peer"))
	switch {
	case len(f.peers.value) == 0:
		return c.is(Warning, "this cluster reads no other cluster").advise("Join it: kubectl multicluster join --help")
	case len(broken) > 0:
		return c.is(Failed, detail+"; "+output.List(broken, 3)).advise("`kubectl multicluster status` shows the command that repairs each.")
	case len(waiting) > 0:
		return c.is(Warning, detail+"; not yet: "+output.List(waiting, 5)).advise("Wait, and check again. If it stays, look at the log of the controller.")
	}
	return c.ok(detail)
}

const day = 24 * time.Hour

// checkTokens looks at the tokens with which this cluster reads its peers.
func (f *facts) checkTokens() Check {
	c := Check{ID: TokenExpiry, Cluster: f.context, Link: output.Docs + "join.md"}
	if f.peers.err != nil {
		return c.unknown(f.peers.err)
	}
	now := f.now.Add(f.server.value.Ahead)
	var expired, soon []string
	for _, p := range f.peers.value {
		at := p.TokenExpiry
		switch {
		case at.IsZero():
		case !at.After(now):
			expired = append(expired, p.ID+" since "+at.UTC().Format(time.RFC3339))
		case expiresSoon(p, now):
			soon = append(soon, p.ID+" at "+at.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case len(expired) > 0:
		return c.is(Failed, "expired: "+output.List(expired, 5)).advise("Store a new token for each: kubectl multicluster rotate --help")
	case len(soon) > 0:
		return c.is(Warning, "expires: "+output.List(soon, 5)).advise("Store a new token before that time, or let the controller renew it: kubectl multicluster rotate --help")
	}
	return c.ok("no token has expired or expires soon")
}

// expiresSoon reports whether a renewal is late: the controller renews at two thirds of the life. A
// token that nobody renews is worth a warning a day before, too.
func expiresSoon(p system.Peer, now time.Time) bool {
	if p.TokenMessage != "" {
		return true
	}
	if life := p.TokenExpiry.Sub(p.TokenIssued); !p.TokenIssued.IsZero() && now.Sub(p.TokenIssued) > life*3/4 {
		return true
	}
	return !p.Renews && p.TokenExpiry.Sub(now) < day
}
