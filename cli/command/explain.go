package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/explain"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// explainFlags are the flags of the command explain.
type explainFlags struct{ pod string }

func newExplain(e *env) *cobra.Command {
	var flags explainFlags
	c := &cobra.Command{
		Use:   "explain NAME",
		Short: "Show where the chain of a name breaks, why, and how to fix it",
		Long: `Walks the chain of a name, from the pod that asks to the endpoints of the exporting clusters: search
path, Corefile, the answer of each DNS server, import, derived Service, EndpointSlices, peers, exports,
Services and endpoints. Names the first broken link in the order of cause, and the commands that fix it.

NAME has one of these forms:
  ` + strings.ReplaceAll(chain.Forms, "\n", "\n  ") + `
A name of one label is in the namespace of the context, or in that of --namespace.

--context selects the cluster in which the name is asked for. The exporting clusters are found among the
other contexts of the kubeconfig, by the ID that they announce. Nothing is written. DNS servers are asked
through a port-forward of the API server. A link that cannot be read is "unknown", with the missing right.

The exit status is 0 if the chain is whole, 1 if it is broken or not known, and 2 if the arguments are wrong.`,
		Example: `  kubectl multicluster explain foo.default.svc.clusterset.local --context member2
  kubectl multicluster explain foo.default.svc --context member2 --pod default/client-5d8f
  kubectl multicluster explain _http._tcp.foo.default.svc.clusterset.local -o json`,
		Args: arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error { return runExplain(c.Context(), e, flags, args[0]) },
	}
	c.Flags().StringVar(&flags.pod, "pod", "", "the pod that asks, as NAMESPACE/NAME. Default: a pod with the defaults of the namespace")
	e.formatFlag(c)
	return c
}

func runExplain(ctx context.Context, e *env, flags explainFlags, text string) error {
	if _, err := output.ParseFormat(e.format); err != nil {
		return usageError{err}
	}
	if _, err := chain.ParseName(text, metav1.NamespaceDefault); err != nil {
		return usageError{err}
	}
	q := explain.Question{Unusable: map[string]string{}}
	if flags.pod != "" {
		var ok bool
		if q.PodNamespace, q.Pod, ok = strings.Cut(flags.pod, "/"); !ok || q.Pod == "" || q.PodNamespace == "" {
			return usage("--pod %s: expected NAMESPACE/NAME", output.Quote(flags.pod))
		}
	}
	if err := complete(ctx, e, &q, text); err != nil {
		return err
	}
	found, err := explain.Explain(ctx, q)
	if err != nil {
		return err
	}
	if err := e.report(found, func(w io.Writer, p output.Painter) error { return explain.Print(w, p, found) }); err != nil {
		return err
	}
	if found.Result != chain.ResultWhole {
		return errWrong
	}
	return nil
}

// complete adds to a question what the kubeconfig has.
func complete(ctx context.Context, e *env, q *explain.Question, text string) error {
	all, err := e.contexts(ctx)
	if err != nil {
		return err
	}
	q.Server = func(context string) string {
		if of, err := all.Server(context); err == nil {
			return of.Server
		}
		return ""
	}
	if q.Pod == "" { // Otherwise a resolver completes a name of one label with the pod's own namespace.
		if q.PodNamespace, _, err = e.kube.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("read the namespace of the kubeconfig: %w", err)
		}
	}
	if q.Name, err = chain.ParseName(text, q.PodNamespace); err != nil {
		return usageError{err}
	}
	return choose(all, q)
}

// choose sets the importing cluster, and the others that can be used. The same address does not make two
// contexts one cluster: it can be that of a proxy.
func choose(all *clusters.Contexts, q *explain.Question) error {
	current := all.Current()
	if current == "" {
		return usage("no context is selected: set --context, one of %s", output.List(all.Names(), 10))
	}
	var err error
	if q.Here, err = all.Cluster(current); err != nil {
		return err
	}
	for _, name := range all.Names() {
		if name == current {
			continue
		}
		one, err := all.Cluster(name)
		if err != nil {
			q.Unusable[name] = err.Error()
			continue
		}
		q.Others = append(q.Others, one)
	}
	return nil
}
