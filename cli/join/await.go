package join

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// connected is the reason of a peer that is connected.
const connected = "Connected"

// await waits until all links that are made are connected, and notes the state of each. It reads the
// Leases of each reader once in a while, not those of each link.
func await(ctx context.Context, all []*work, o Options) {
	var made []*work
	for _, w := range all {
		if w.result.Change != Failed {
			made = append(made, w)
		}
	}
	if o.Wait <= 0 || len(made) == 0 {
		return
	}
	known := map[*Member]map[string]system.Peer{}
	var open map[*work]system.Peer
	// The error of the wait is that the time is over, which the problems below describe.
	_ = wait.PollUntilContextTimeout(ctx, pollEvery, o.Wait, true, func(ctx context.Context) (bool, error) {
		readLeases(ctx, made, known)
		open = unconnected(made, known)
		if o.Progress != nil {
			o.Progress(len(made)-len(open), len(made))
		}
		return len(open) == 0, nil
	})
	for _, w := range made {
		w.result.State = connected
		if p, waits := open[w]; waits {
			w.result.State = p.Reason
			if p.Reason == "" || p.Connected { // the Lease is from before the change
				w.result.State = "Unknown"
			}
			w.result.Problems = append(w.result.Problems, w.notConnected(p))
		}
	}
}

// readLeases updates what is known of the peers of each reader. If a read fails, as the last one does
// when the time is over, what was known stays.
func readLeases(ctx context.Context, made []*work, known map[*Member]map[string]system.Peer) {
	var readers []*Member
	for _, w := range made {
		if !slices.Contains(readers, w.To) {
			readers = append(readers, w.To)
		}
	}
	var mu sync.Mutex
	each(ctx, readers, func(ctx context.Context, m *Member) {
		found, err := system.ReadPeers(ctx, m.Cluster.Kube)
		if err != nil {
			return
		}
		peers := map[string]system.Peer{}
		for _, p := range found {
			peers[p.ID] = p
		}
		mu.Lock()
		defer mu.Unlock()
		known[m] = peers
	})
}

// unconnected returns the links whose Lease does not have the reason Connected, each with what is known
// of it.
func unconnected(made []*work, known map[*Member]map[string]system.Peer) map[*work]system.Peer {
	open := map[*work]system.Peer{}
	for _, w := range made {
		p := known[w.To][w.From.id]
		// A Lease from before the change describes the former Secret.
		stale := w.result.Change != Unchanged && p.LeaseVersion == w.leaseVersion
		if !p.Connected || stale {
			open[w] = p
		}
	}
	return open
}

// notConnected is the problem of a link that was made and is not connected.
func (w *work) notConnected(p system.Peer) output.Problem {
	from, to := w.From.Context, w.To.Context
	problem := output.Problem{ID: p.Reason, Link: output.Docs + "join.md#see-whether-it-works"}
	problem.What = fmt.Sprintf("%s does not read %s: %s", w.To.called(), w.From.called(), p.Message)
	controller := func(context string) []string {
		return []string{output.Kubectl(context, "get", "pods", "-n", system.Namespace, "-l", "app.kubernetes.io/name="+system.Controller)}
	}
	switch p.Reason {
	case "", connected:
		problem.ID = "NotRead"
		problem.What = fmt.Sprintf("%s does not read %s: the controller in %s has not looked at the new Secret yet", w.To.called(), w.From.called(), output.Clean(to))
		problem.Advice = "Check that its pods run and are ready."
		problem.Fix = controller(to)
	case "Unreachable":
		problem.Advice = fmt.Sprintf("The pods of %s need a way to that address. If it is one of a bastion or of your machine, or if its certificate authority has changed, join again with --server %s. The certificate authority is then that of the kubeconfig, or of --ca.", output.Clean(to), output.Quote(from+"=https://ADDRESS"))
	case "Unauthorized":
		problem.Fix = []string{w.command("rotate")}
	case "Forbidden":
		problem.Fix = []string{w.command("join", w.kind...)}
	case "NoCRD":
		problem.Fix = []string{output.Kubectl(from, "apply", "--server-side", "-k", output.Deploy("crd"))}
	case "ControllerSilent", "NoController":
		problem.Fix = controller(from)
	default:
		problem.Fix = []string{output.Kubectl(to, "describe", "lease", "-n", system.Namespace, w.From.id)}
	}
	return problem
}
