package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/clusterset-dns/multicluster/cli/explain"
	"github.com/clusterset-dns/multicluster/cli/explain/chain"
)

// Facts reads what the command `explain`, with these arguments, would explain a name from.
func Facts(ctx context.Context, args ...string) (facts *chain.Facts, err error) {
	e := &env{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), kube: kubeFlags()}
	root := newRoot(e)
	root.SetArgs(args)
	c, _, err := root.Find([]string{"explain"})
	if err != nil {
		return nil, err
	}
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		q := explain.Question{Unusable: map[string]string{}}
		q.PodNamespace, q.Pod, _ = strings.Cut(c.Flag("pod").Value.String(), "/")
		if err := complete(c.Context(), e, &q, args[0]); err != nil {
			return err
		}
		facts, err = explain.Gather(c.Context(), q)
		return err
	}
	err = root.ExecuteContext(ctx)
	return facts, err
}
