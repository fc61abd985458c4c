package chain

import (
	"fmt"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// peerLink reports whether this cluster reads the exporting cluster.
func (w *walk) peerLink(e exporter) bool {
	h := &w.Here
	if e.peer == nil {
		w.link("peer "+e.id, h.Context, Broken, "this cluster does not read it")
		p := problem("PeerMissing", fmt.Sprintf("%s does not read %s, which exports %s: it has no Secret of this peer.", h.Context, e.name(), w.Name.Import()))
		p.Fix = []string{joinCommand(e.side.Context, h.Context)}
		w.add(rankExporter, p)
		return false
	}
	p := e.peer
	detail := p.Reason
	if p.Message != "" {
		detail += ": " + p.Message
	}
	if p.DataPath != "" {
		detail += "; data path " + p.DataPath
	}
	if p.Connected && p.Reason == "Connected" {
		w.link("peer "+p.ID, h.Context, OK, detail)
		return true
	}
	if p.Reason == "" {
		detail = "the controller has not looked at its Secret yet"
	}
	w.link("peer "+p.ID, h.Context, Broken, detail)
	// What the Lease contains is old if nobody writes it any more.
	if silent := w.silent(h, "NoController", "ControllerSilent"); silent != nil {
		w.add(rankExporter, silent)
		return false
	}
	w.add(rankExporter, w.peerProblem(e))
	return false
}

// joinCommand joins two clusters, by their contexts. It repairs what is missing.
func joinCommand(from, to string) string {
	return output.Command("kubectl", "multicluster", "join", from, to)
}

// peerProblem returns what to do about the reason of a peer's Lease.
func (w *walk) peerProblem(e exporter) *output.Problem {
	p, h := e.peer, &w.Here
	id := "Peer" + p.Reason
	if _, known := causes[id]; !known {
		id = "PeerUnknownReason"
	}
	if p.Reason == "" {
		id = "PeerSyncing"
	}
	if p.Reason == "Unauthorized" && !p.TokenExpiry.IsZero() && p.TokenExpiry.Before(w.Now) {
		id = "PeerTokenExpired"
	}
	found := problem(id, fmt.Sprintf("%s does not read %s (%s): %s", h.Context, p.ID, p.Reason, p.Message))
	if id == "PeerTokenExpired" {
		found.What = fmt.Sprintf("The token with which %s reads %s expired at %s.", h.Context, p.ID, p.TokenExpiry.UTC().Format(time.RFC3339))
	}
	there := w.there(e)
	switch id {
	case "PeerUnauthorized", "PeerTokenExpired", "PeerSecretMissing", "PeerInvalidKubeconfig":
		found.Fix = []string{joinCommand(there, h.Context)}
	case "PeerForbidden":
		found.Fix = []string{output.Kubectl(there, "apply", "-k", output.Deploy("peer"))}
	case "PeerNoCRD":
		found.Fix = []string{output.Kubectl(there, "apply", "--server-side", "-k", output.Deploy("crd"))}
	case "PeerNoController", "PeerControllerSilent":
		found.Advice = "Start the controller in that cluster, with its cluster ID."
		if e.side != nil {
			found.Advice = ""
			w.start(found, e.side)
		}
	case "PeerWrongID", "PeerInvalidID", "PeerDuplicateCluster":
		if e.side != nil && e.side.ID == p.ID { // The name of the Secret is right, and its content is wrong.
			found.Fix = []string{joinCommand(there, h.Context)}
			break
		}
		w.dropPeer(found, e)
	case "PeerDuplicateID":
		if e.side != nil && e.side.ID != h.ID { // Only the Secret has a wrong name.
			w.dropPeer(found, e)
			break
		}
		found.Advice = "Set another --cluster-id in one of the two clusters (docs/join.md describes how to change it), then join them."
	case "PeerInvalidLimits":
		found.Advice = "Correct the annotation of the Secret: " + output.Kubectl(h.Context, "--namespace", "multicluster-system", "edit", "secret", p.ID)
	case "PeerLeaving":
		found.Fix = []string{joinCommand(there, h.Context)}
		found.Advice = "The peer leaves on purpose, and its imports are being removed. The command lets it return."
	case "PeerUnreachable":
		found.Advice = "Look at the address, the certificate and the network in the message. If the pods reach the API server at another address, join again with --server."
	case "PeerTooLarge":
		found.Advice = "The peer has too many objects of one kind, or is hostile. Its controller's log has more."
	default:
		found.Advice = "Wait some seconds. If it stays so, see the log of the controller of " + h.Context + "."
	}
	if e.side == nil && len(found.Fix) > 0 && there == contextPlaceholder {
		found.Advice = "Replace " + contextPlaceholder + " by the context of the cluster " + p.ID + ". " + found.Advice
	}
	return found
}

const contextPlaceholder = "CONTEXT"

// there returns the context of an exporting cluster.
func (w *walk) there(e exporter) string {
	if e.side == nil {
		return contextPlaceholder
	}
	return e.side.Context
}

// dropPeer adds the commands that remove a Secret with a wrong name or content, and join again.
func (w *walk) dropPeer(found *output.Problem, e exporter) {
	h := &w.Here
	at := []string{"--namespace", "multicluster-system"}
	const leaving = "clusterset-dns.io/leaving=true"
	found.Fix = []string{
		output.Kubectl(h.Context, append(at, "annotate", "--overwrite", "secrets,leases", "-l", "clusterset-dns.io/peer", "--field-selector", "metadata.name="+e.peer.ID, leaving)...),
		output.Kubectl(h.Context, append(at, "delete", "secret", e.peer.ID)...),
	}
	if e.side != nil && !w.joined(e.side.ID) {
		found.Fix = append(found.Fix, joinCommand(e.side.Context, h.Context))
	}
}

// joined reports whether this cluster has a Secret of a peer.
func (w *walk) joined(id string) bool {
	for _, p := range w.Here.Peers.Value {
		if p.ID == id && p.HasSecret {
			return true
		}
	}
	return id == w.Here.ID
}
