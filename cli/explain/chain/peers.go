package chain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// controllerNamespace is system.Namespace. The package does not import the clients of that one.
const controllerNamespace = "multicluster-system"

// peerLink reports whether this cluster reads the exporting cluster.
func (w *walk) peerLink(e exporter) bool {
	h := &w.Here
	if e.peer == nil {
		w.link("peer "+e.id, h.Context, Broken, "this cluster does not read it")
		w.add(rankExporter, w.noPeer(e))
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
	if silent := w.silent(h); silent != nil {
		w.add(rankExporter, silent)
		return false
	}
	w.add(rankExporter, w.peerProblem(e))
	return false
}

// noPeer returns the problem of an exporting cluster that this one does not read.
func (w *walk) noPeer(e exporter) *output.Problem {
	if p := w.duplicate(e.id); p != nil { // A join would make one peer of two clusters.
		return p
	}
	p := problem("PeerMissing", fmt.Sprintf("%s does not read %s, which exports %s: it has no Secret of this peer.", w.Here.Context, e.name(), w.Name.Import()))
	p.Fix = []string{joinCommand(e.side.Context, w.Here.Context)}
	return p
}

// joinCommand lets one cluster read another, by their contexts. It repairs what is missing, and leaves the
// other direction alone.
func joinCommand(from, to string) string { return linkCommand("join", from, to) }

func linkCommand(command, from, to string) string {
	return output.Command("kubectl", "multicluster", command, to, "--from", output.CSV(from))
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
	judge := h // The clock of the peer counts, if it can be read.
	if e.side != nil {
		judge = e.side
	}
	if p.Reason == "Unauthorized" && !p.TokenExpiry.IsZero() && p.TokenExpiry.Before(judge.Now) {
		id = "PeerTokenExpired"
	}
	found := problem(id, fmt.Sprintf("%s does not read %s (%s): %s", h.Context, p.ID, p.Reason, p.Message))
	if id == "PeerTokenExpired" {
		found.What = fmt.Sprintf("The token with which %s reads %s expired at %s.", h.Context, p.ID, p.TokenExpiry.UTC().Format(time.RFC3339))
	}
	w.fixPeer(found, e)
	if e.side == nil && strings.Contains(strings.Join(found.Fix, "\n"), contextPlaceholder) {
		found.Advice = strings.TrimSpace("Replace " + contextPlaceholder + " by the context of the cluster " + p.ID + ". " + found.Advice)
	}
	return found
}

// rotated are the causes that a new token repairs, and rejoined those that a second join does.
var (
	rotated  = []string{"PeerUnauthorized", "PeerTokenExpired"}
	rejoined = []string{"PeerSecretMissing", "PeerInvalidKubeconfig", "PeerLeaving"}
)

// misnamed are the causes in which the name of the Secret, or the cluster that it is for, is wrong.
var misnamed = []string{"PeerWrongID", "PeerInvalidID", "PeerDuplicateCluster", "PeerDuplicateID"}

// peerAdvice is what to do where no command is known.
var peerAdvice = map[string]string{
	"PeerDuplicateID":      "Set another --cluster-id in one of the two clusters (docs/join.md describes how to change it), then join them.",
	"PeerLeaving":          "The peer leaves on purpose, and its imports are being removed. The command lets it return.",
	"PeerUnreachable":      "Look at the address, the certificate and the network in the message. If the pods reach the API server at another address, join again with --server.",
	"PeerTooLarge":         "The peer has too many objects of one kind, or is hostile. The log of the controller has more.",
	"PeerStale":            "The API server of that cluster has too many requests. Look at API Priority and Fairness there.",
	"PeerNoController":     "Start the controller in that cluster, with its cluster ID.",
	"PeerControllerSilent": "Start the controller in that cluster.",
	"PeerSyncing":          "Wait some seconds. If it stays so, see the log of the controller.",
	"PeerUnknownReason":    "See the message, and the log of the controller.",
}

// fixPeer adds what to do about the cause of a peer.
func (w *walk) fixPeer(found *output.Problem, e exporter) {
	p, h, there := e.peer, &w.Here, w.there(e)
	found.Advice = peerAdvice[found.ID]
	switch id := found.ID; {
	case slices.Contains(rotated, id):
		found.Fix = []string{linkCommand("rotate", there, h.Context)}
	case slices.Contains(rejoined, id):
		found.Fix = []string{joinCommand(there, h.Context)}
	case id == "PeerForbidden" && !p.TokenExpiry.IsZero():
		// The token is of an account for this reader only, whose rights deploy/peer does not contain.
		found.Fix = []string{joinCommand(there, h.Context)}
	case id == "PeerForbidden":
		found.Fix = []string{output.Kubectl(there, "apply", "-k", output.Deploy("peer"))}
	case id == "PeerNoCRD":
		found.Fix = []string{output.Kubectl(there, "apply", "--server-side", "-k", output.Deploy("crd"))}
	case (id == "PeerNoController" || id == "PeerControllerSilent") && e.side != nil:
		found.Advice = ""
		w.start(found, e.side)
	case id == "PeerInvalidLimits":
		found.Advice = "Correct the annotation of the Secret: " + output.Kubectl(h.Context, "--namespace", controllerNamespace, "edit", "secret", p.ID)
	case slices.Contains(misnamed, id):
		w.fixName(found, e)
	}
}

// fixName repairs a Secret with a wrong name, or of a wrong cluster.
func (w *walk) fixName(found *output.Problem, e exporter) {
	switch {
	case found.ID == "PeerDuplicateID" && (e.side == nil || e.side.ID == w.Here.ID):
		return // Two clusters have one ID.
	case e.side != nil && e.side.ID == e.peer.ID:
		// The name of the Secret is right, and its content is wrong. A second join alone would keep the
		// address of the server.
		found.Fix = []string{
			linkCommand("leave", e.side.Context, w.Here.Context), joinCommand(e.side.Context, w.Here.Context),
		}
		return
	}
	found.Advice = ""
	switch joins := e.side != nil && !w.joined(e.side.ID) && w.duplicate(e.side.ID) == nil; {
	case joins:
		found.Fix = append(w.dropPeer(e.peer.ID), joinCommand(e.side.Context, w.Here.Context))
	case found.ID == "PeerWrongID":
		found.Advice = fmt.Sprintf("If the cluster has the wrong ID, set --cluster-id=%s there again: the peer returns, with its imports. If the Secret has the wrong name, remove it. "+
			"That also removes all that %s imports from %s, and joins nothing in its place: %s",
			e.peer.ID, w.Here.Context, e.peer.ID, strings.Join(w.dropPeer(e.peer.ID), " && "))
	default:
		found.Fix = w.dropPeer(e.peer.ID)
		found.Advice = fmt.Sprintf("The commands remove the peer %s, and all that %s imports from it. They join nothing in its place: if the cluster is no peer under its own ID, join it after them.", e.peer.ID, w.Here.Context)
	}
}

const contextPlaceholder = "CONTEXT"

// there returns the context of an exporting cluster.
func (w *walk) there(e exporter) string {
	if e.side == nil {
		return contextPlaceholder
	}
	return e.side.Context
}

// dropPeer returns the commands that remove a peer, with its imports.
func (w *walk) dropPeer(id string) []string {
	at := []string{"--namespace", controllerNamespace}
	const leaving = "clusterset-dns.io/leaving=true"
	return []string{
		output.Kubectl(w.Here.Context, append(at, "annotate", "--overwrite", "secrets,leases", "-l", "clusterset-dns.io/peer", "--field-selector", "metadata.name="+id, leaving)...),
		output.Kubectl(w.Here.Context, append(at, "delete", "secret", id)...),
	}
}

// joined reports whether a cluster is this one, or a peer.
func (w *walk) joined(id string) bool { return id == w.Here.ID || w.hasSecret(id) }

// hasSecret reports whether this cluster has a Secret of a peer.
func (w *walk) hasSecret(id string) bool {
	return slices.ContainsFunc(w.Here.Peers.Value, func(p Peer) bool { return p.ID == id && p.HasSecret })
}
