package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/deploy/peer"
)

// Remaining adds to a report of Leave the clusters that the given one is still joined with. No context
// of the user leads to them.
func (r *Report) Remaining(ctx context.Context, m *Member) {
	if m.fault != nil {
		return // the report has it
	}
	read, err := system.ReadPeers(ctx, m.Cluster.Kube)
	var readers []string
	if err == nil {
		readers, err = m.readers(ctx)
	}
	if err != nil {
		r.Others = append(r.Others, output.Problem{
			ID: "NotRead", What: fmt.Sprintf("cannot read what %s is still joined with: %s", m.called(), output.Clean(err.Error())),
			Fix: []string{output.Command("kubectl", "multicluster", "leave", m.Context, "--all")},
		})
	}
	for _, p := range read {
		if p.HasSecret {
			r.Others = append(r.Others, stillJoined(fmt.Sprintf("%s still reads %s", m.called(), p.ID), m.Context, p.ID, p.ID))
		}
	}
	for _, id := range readers {
		r.Others = append(r.Others, stillJoined(fmt.Sprintf("%s still has a token for %s", m.called(), id), id, m.Context, id))
	}
	if len(r.Others) == 0 {
		r.unrelated(m)
	}
}

// unrelated makes notes of the clusters without a known ID: the given one has no link left, so none of
// them had one.
func (r *Report) unrelated(m *Member) {
	for i := range r.Links {
		l := &r.Links[i]
		if l.Change != Failed || l.FromID != "" && l.ToID != "" {
			continue
		}
		other := l.From
		if other == m.Context {
			other = l.To
		}
		l.Change, l.Problems = Unchanged, nil
		r.Notes = append(r.Notes, fmt.Sprintf("the ID of the cluster of context %s is not known. %s has a link with no further cluster, so nothing is left there", output.Clean(other), m.called()))
	}
	r.Notes = slices.Compact(slices.Sorted(slices.Values(r.Notes)))
}

// stillJoined has a command that cleans the side that a context leads to. The ID stands for the other
// context.
func stillJoined(what, reader, source, id string) output.Problem {
	return output.Problem{
		ID: "StillJoined", What: what + ", and no context of the kubeconfig leads there",
		Fix: []string{output.Command("kubectl", "multicluster", "leave", reader, "--from", output.CSV(source), "--id", id+"="+id)},
	}
}

// readers returns the IDs of the clusters that have a credential for this one, sorted.
func (m *Member) readers(ctx context.Context) ([]string, error) {
	var ids []string
	note := func(name string) {
		if id, ok := strings.CutPrefix(name, peer.Account+"-"); ok {
			ids = append(ids, output.Clean(id))
		}
	}
	core := m.Cluster.Kube.CoreV1()
	tokens, err := core.Secrets(system.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, fmt.Errorf("list the tokens of readers: %w", err)
	}
	for i := range tokens.Items {
		if tokens.Items[i].Annotations[corev1.ServiceAccountNameKey] == peer.Account {
			note(tokens.Items[i].Name)
		}
	}
	accounts, err := core.ServiceAccounts(system.Namespace).List(ctx, metav1.ListOptions{LabelSelector: peer.LabelReader})
	if err != nil {
		return nil, fmt.Errorf("list the accounts of readers: %w", err)
	}
	for i := range accounts.Items {
		note(accounts.Items[i].Name)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
