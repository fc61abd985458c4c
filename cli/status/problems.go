package status

import (
	"fmt"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// clusterProblems is what is wrong in one cluster.
func clusterProblems(c *Cluster, now time.Time) []output.Problem {
	if !c.reachable {
		return []output.Problem{{
			ID: "ClusterUnreachable", What: fmt.Sprintf("Context %s: %s.", output.Clean(c.Context), output.List(c.Errors, 1)),
			Advice: "Check the network and the credentials of the context.",
			Fix:    []string{output.Kubectl(c.Context, "version")}, Link: output.Docs + "troubleshooting.md#a-cluster-cannot-be-read",
		}}
	}
	var found []output.Problem
	add := func(id, what, link string, fix ...string) {
		found = append(found, output.Problem{ID: id, What: what, Fix: fix, Link: output.Docs + link})
	}
	name := output.Clean(c.Context)
	pods := output.Kubectl(c.Context, "get", "pods", "--namespace", system.Namespace)
	for _, text := range c.Errors {
		found = append(found, output.Problem{ID: "NotRead", What: fmt.Sprintf("Context %s: %s.", name, text), Link: output.Docs + "troubleshooting.md#a-cluster-cannot-be-read"})
	}
	switch {
	case c.Installed != nil && !*c.Installed:
		add("NotInstalled", fmt.Sprintf("Context %s has no namespace %s: the controller is not installed.", name, system.Namespace), "install.md",
			output.Command("kubectl", "multicluster", "check", "--pre", "--contexts", output.CSV(c.Context)))
		return found
	case c.installed() && c.ID == "":
		add("NoClusterID", fmt.Sprintf("The controller of context %s announces no cluster ID. It does not run, or it has no --cluster-id.", name), "join.md#the-cluster-id", pods)
	case !c.Heartbeat.IsZero() && now.Sub(c.Heartbeat) > silentAfter:
		add("ControllerSilent", fmt.Sprintf("The controller of %s (context %s) wrote its last heartbeat at %s, %s ago.", c.ID, name,
			c.Heartbeat.UTC().Format(time.RFC3339), now.Sub(c.Heartbeat).Round(time.Second)), "silent-clusters.md", pods)
	}
	if r := c.Controller; r != nil && c.installed() && r.Ready < max(r.Wanted, 1) {
		add("ControllerNotReady", fmt.Sprintf("Context %s has %d of %d ready replicas of the controller.", name, r.Ready, r.Wanted),
			"troubleshooting.md#7-the-controller-does-not-start-or-restarts", pods)
	}
	if r := c.DNS; r != nil && r.Ready < r.Wanted {
		add("DNSNotReady", fmt.Sprintf("Context %s has %d of %d ready DNS servers.", name, r.Ready, r.Wanted), "troubleshooting.md#3-coredns",
			output.Kubectl(c.Context, "get", "pods", "--all-namespaces", "--selector", "k8s-app=kube-dns"), pods)
	}
	return found
}

// duplicates are contexts that are one cluster, and clusters with one ID.
func duplicates(rows []Cluster) []output.Problem {
	var found []output.Problem
	for i, a := range rows {
		for _, b := range rows[:i] {
			switch {
			case a.uid != "" && a.uid == b.uid:
				found = append(found, output.Problem{
					ID: "SameCluster", What: fmt.Sprintf("The contexts %s and %s are one cluster.", output.Clean(b.Context), output.Clean(a.Context)),
					Advice: "Name one of them with --contexts.", Link: output.Docs + "join.md",
				})
			case a.ID != "" && a.ID == b.ID:
				found = append(found, output.Problem{
					ID: "DuplicateID", What: fmt.Sprintf("The contexts %s and %s are two clusters with the ID %s.", output.Clean(b.Context), output.Clean(a.Context), a.ID),
					Advice: "Change the ID of one of them.", Link: output.Docs + "join.md#the-cluster-id",
				})
			}
		}
	}
	return found
}

// fineStates are states of a link that are no problem: they are on purpose, or pass.
var fineStates = map[string]bool{Connected: true, NotJoined: true, Unknown: true, "Leaving": true, "Syncing": true, New: true}

// linkProblems is what is wrong with one link. The map has the context of each cluster ID.
func linkProblems(l Link, contexts map[string]string, now time.Time) []output.Problem {
	var found []output.Problem
	if !l.Connected && !fineStates[l.State] {
		found = append(found, output.Problem{
			ID: l.State, What: fmt.Sprintf("%s does not read %s: %s", l.Reader, l.Source, l.Message),
			Fix:  repair(l, contexts),
			Link: output.Docs + "join.md#see-whether-it-works",
		})
	}
	if what := tokenProblem(l, now); what != "" {
		found = append(found, output.Problem{ID: "TokenExpires", What: what, Fix: repair(l, contexts), Link: output.Docs + "join.md#tokens-that-expire"})
	}
	return found
}

// tokenProblem is what is wrong with the token of a link, or "".
func tokenProblem(l Link, now time.Time) string {
	link := fmt.Sprintf("The token with which %s reads %s", l.Reader, l.Source)
	at := l.TokenExpiry.UTC().Format(time.RFC3339)
	switch {
	case !l.TokenExpiry.IsZero() && l.TokenExpiry.Before(now):
		return link + " expired at " + at + "."
	case l.TokenMessage == "":
		return ""
	case l.TokenExpiry.IsZero():
		return link + " is not renewed: " + l.TokenMessage
	}
	return link + " expires at " + at + " and is not renewed: " + l.TokenMessage
}

// repair is the command that makes a link anew, if both clusters have a context. Otherwise it shows
// the Lease.
func repair(l Link, contexts map[string]string) []string {
	reader, source := l.Context, contexts[l.Source]
	if source == "" {
		return []string{output.Kubectl(reader, "describe", "lease", l.Source, "--namespace", system.Namespace)}
	}
	switch l.State {
	case "Unauthorized", Connected:
		return []string{output.Command("kubectl", "multicluster", "rotate", reader, "--from", output.CSV(source))}
	case "Forbidden", "SecretMissing", "InvalidKubeconfig":
		return []string{output.Command("kubectl", "multicluster", "join", reader, "--from", output.CSV(source))}
	case "NoController", "ControllerSilent":
		return []string{output.Kubectl(source, "get", "pods", "--namespace", system.Namespace)}
	}
	return []string{output.Kubectl(reader, "describe", "lease", l.Source, "--namespace", system.Namespace)}
}
