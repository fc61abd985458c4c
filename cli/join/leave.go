package join

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Leave removes links. It cleans each side, even if the other one does not answer or no longer exists.
// Such a member needs its GivenID. The report has the commands for it.
func Leave(ctx context.Context, links []*Link) (*Report, error) {
	each(ctx, members(links), func(ctx context.Context, m *Member) { m.fault = m.identifyToLeave(ctx) })
	works, notes, err := distinct(links)
	if err != nil {
		return nil, err
	}
	each(ctx, works, func(ctx context.Context, w *work) {
		w.again = w.command("leave")
		w.leave(ctx)
	})
	unused(ctx, works)
	return report(works, notes), ctx.Err()
}

// identifyToLeave sets the ID. It is the given one if the cluster announces none, or does not answer.
func (m *Member) identifyToLeave(ctx context.Context) error {
	found, err := m.read(ctx)
	if err != nil {
		if m.GivenID != "" {
			if wrong := m.accept(m.GivenID); wrong != nil {
				return wrong
			}
		}
		return err
	}
	m.uid = found.UID
	if m.GivenID != "" {
		found.Installed = true // it was, and something can be left of it
	}
	return m.setID(found)
}

// leave removes both sides of the link. The reader comes first: without its token it would report an
// error.
func (w *work) leave(ctx context.Context) {
	if w.From.id == "" || w.To.id == "" {
		w.fail(w.unknown())
		return
	}
	left := w.side(ctx, w.To, w.removeReading)
	if w.result.Change == Failed {
		return // a Secret of a Helm release stays, with a token that it needs
	}
	revoked := w.side(ctx, w.From, w.removeGranting)
	switch {
	case len(w.result.Problems) > 0:
		w.result.Change = Failed
	case left || revoked:
		w.result.Change = Deleted
	default:
		w.result.Change = Unchanged
	}
}

// unknown is the fault of a link whose Secrets have unknown names.
func (w *work) unknown() error {
	for _, m := range []*Member{w.From, w.To} {
		if known := new(fault); m.id == "" && errors.As(m.fault, &known) {
			p := known.Problem
			p.Advice = fmt.Sprintf("To clean the other side, set the ID that this cluster has or had, with --id %s. %s", output.Quote(m.Context+"=ID"), p.Advice)
			return &fault{p}
		}
	}
	return fmt.Errorf("the ID of %s or %s is not known", w.From.called(), w.To.called())
}

// side cleans one side of the link, or notes the commands that do it later.
func (w *work) side(ctx context.Context, m *Member, clean func(context.Context) (bool, error)) bool {
	var did bool
	err := m.fault
	if err == nil {
		did, err = clean(ctx)
	}
	if isOfHelm(err) {
		w.fail(err)
		return did
	}
	if err != nil {
		w.result.Problems = append(w.result.Problems, output.Problem{
			ID:     "SideNotCleaned",
			What:   fmt.Sprintf("the side of %s is not cleaned: %s", m.called(), output.Clean(err.Error())),
			Advice: "Run these commands when that cluster answers again. If it no longer exists, there is nothing to do.",
			Fix:    w.byHand(m),
		})
	}
	return did
}

// byHand are the commands that clean a side without this program.
func (w *work) byHand(m *Member) []string {
	in := []string{"-n", system.Namespace}
	if m == w.To {
		only := append(in, "-l", mcs.LabelPeer, "--field-selector", "metadata.name="+w.From.id)
		return []string{
			output.Kubectl(m.Context, append(append([]string{"annotate", "secrets,leases"}, only...), "--overwrite", system.AnnotationLeaving+"=true")...),
			output.Kubectl(m.Context, append([]string{"delete", "secrets"}, only...)...),
		}
	}
	name := peer.ReaderName(w.To.id)
	return []string{
		output.Kubectl(m.Context, append([]string{"delete", "--ignore-not-found", "secret/" + name, "serviceaccount/" + name, "rolebinding/" + name, "role/" + name}, in...)...),
		output.Kubectl(m.Context, "delete", "--ignore-not-found", "clusterrolebinding/"+name),
	}
}

// removeReading marks the Secret and the Lease, and deletes the Secret. Without the mark, the
// controller treats a deleted Secret as an accident, and keeps everything from the peer for a while.
// The mark on the Lease remains when the Secret is gone.
func (w *work) removeReading(ctx context.Context) (bool, error) {
	stored, err := w.stored(ctx)
	if err != nil {
		return false, err
	}
	if err := w.notOfHelm(stored); err != nil {
		return false, err
	}
	mark, did := "true", false
	keys := []string{system.AnnotationLeaving}
	if stored.lease != nil && stored.lease.Annotations[system.AnnotationLeaving] != mark {
		if err := w.annotate(ctx, "Lease", keys, &mark); err != nil {
			return did, err
		}
		did = true
	}
	if stored.object == nil || stored.foreign() {
		return did, nil
	}
	if err := w.annotate(ctx, "Secret", keys, &mark); err != nil {
		return did, err
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &stored.object.UID}}
	err = w.To.Cluster.Kube.CoreV1().Secrets(system.Namespace).Delete(ctx, w.From.id, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return did, fmt.Errorf("delete Secret %s/%s: %w", system.Namespace, w.From.id, err)
	}
	return true, nil
}

// removeGranting deletes what the reader can authenticate with.
func (w *work) removeGranting(ctx context.Context) (bool, error) {
	static, err := w.revokeStatic(ctx)
	expiring, other := w.revokeExpiring(ctx)
	return static || expiring, errors.Join(err, other)
}

// unused deletes the shared account of each granting cluster that no reader uses any longer.
func unused(ctx context.Context, all []*work) {
	last := map[*Member]*work{}
	var granting []*Member
	for _, w := range all {
		if w.From.fault != nil || w.From.id == "" {
			continue
		}
		if last[w.From] == nil {
			granting = append(granting, w.From)
		}
		last[w.From] = w
	}
	each(ctx, granting, func(ctx context.Context, m *Member) {
		deleted, err := m.dropAccount(ctx)
		w := last[m]
		if err != nil {
			w.result.Change = Failed
			w.result.Problems = append(w.result.Problems, output.Problem{
				ID:   "AccountNotRemoved",
				What: fmt.Sprintf("the account %s in %s may be unused and still exist: %s", peer.Account, output.Clean(m.Context), output.Clean(err.Error())),
				Fix:  []string{w.again},
			})
			return
		}
		if deleted {
			w.notes = append(w.notes, fmt.Sprintf("the account %s in %s is deleted, because no reader uses it", peer.Account, m.called()))
			if w.result.Change == Unchanged {
				w.result.Change = Deleted
			}
		}
	})
}

// dropAccount deletes the account if no token of it is left, including tokens created by hand, and no
// reader has an account of its own, which needs the ClusterRole. If any of its objects belongs to a
// Helm release, all stay: an object that this program restored belongs to that account, too.
func (m *Member) dropAccount(ctx context.Context) (bool, error) {
	used, err := m.accountUsed(ctx)
	if err != nil || used {
		return false, err
	}
	for _, o := range peer.Objects() {
		existing, err := find(ctx, m.Cluster, o)
		if err != nil {
			return false, err
		}
		if existing != nil && ofHelm(existing) {
			return false, nil
		}
	}
	return removeAll(ctx, m.Cluster, peer.Objects())
}

func (m *Member) accountUsed(ctx context.Context) (bool, error) {
	core := m.Cluster.Kube.CoreV1()
	tokens, err := core.Secrets(system.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return false, fmt.Errorf("list the tokens of the account %s: %w", peer.Account, err)
	}
	for i := range tokens.Items {
		if tokens.Items[i].Annotations[corev1.ServiceAccountNameKey] == peer.Account {
			return true, nil
		}
	}
	accounts, err := core.ServiceAccounts(system.Namespace).List(ctx, metav1.ListOptions{LabelSelector: peer.LabelReader, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list the accounts of readers: %w", err)
	}
	return len(accounts.Items) > 0, nil
}
