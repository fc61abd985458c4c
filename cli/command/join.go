package command

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/join"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// minExpiring is the shortest life of a token that an API server gives.
const minExpiring = 10 * time.Minute

// defaultWait is how long to wait for connections.
const defaultWait = time.Minute

func newJoin(e *env) *cobra.Command {
	s := &selection{}
	var o join.Options
	c := &cobra.Command{
		Use:   "join [CONTEXT...]",
		Short: "Let clusters read each other",
		Long: `Lets clusters import what others export. The arguments are contexts of your kubeconfig. Each of these
clusters then reads each other one. With --from, they read the clusters that it names, one way only.
All clusters run the controller.

In the cluster that is read, this applies deploy/peer (unless a Helm release has it): an account that
can list and watch what peers read. It creates a token of that account for each reader, in the Secret
multicluster-peer-<ID of the reader>. In the reader, it creates the Secret <ID of the other cluster>
with a kubeconfig that contains the token. All Secrets are in the namespace multicluster-system.

Run it again to repair what is missing or to change what differs. It writes nothing if nothing
differs. A reader keeps the address that an earlier --server has set, and its certificate authority.
--server with the same address replaces the authority by that of the kubeconfig, or of --ca.

--expiring gives each reader an account of its own, and a token that expires. The controller of the
reader renews it. Joining again keeps the kind of token and its life. --static returns to a token that does
not expire.

-o yaml and -o json write nothing to the clusters. They print the objects that a GitOps tool should
apply in each cluster, with a placeholder for each token.`,
		Example: `  kubectl multicluster join member1 member2 member3
  kubectl multicluster join --mesh                            # all contexts of the kubeconfig
  kubectl multicluster join member2 --from member1            # member2 reads member1, one way
  kubectl multicluster join kind-a kind-b --server kind-a=https://172.18.0.2:6443 --server kind-b=https://172.18.0.3:6443
  kubectl multicluster join member1 member2 --expiring 24h
  kubectl multicluster join member1 member2 -o yaml`,
		Args:              withoutContext,
		ValidArgsFunction: e.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.Expiring != 0 && o.Expiring < minExpiring:
				return usage("--expiring %v: the shortest life of a token is %v", o.Expiring, minExpiring)
			case o.Expiring != 0 && o.Static:
				return usage("--expiring and --static exclude each other: remove one of them")
			case o.Wait < 0:
				return usage("--wait %v: expected 0 or more", o.Wait)
			}
			return e.runJoin(c, s, o, args)
		},
	}
	s.contextFlags(e, c)
	s.meshFlag(c)
	s.serverFlags(c)
	e.formatFlag(c)
	c.Flags().DurationVar(&o.Wait, "wait", defaultWait, "how long to wait for IDs, tokens and connections. 0 does not wait for IDs and connections")
	c.Flags().DurationVar(&o.Expiring, "expiring", 0, "life of the tokens, at least 10m. The controllers renew them")
	c.Flags().BoolVar(&o.Static, "static", false, "tokens that do not expire, also for links whose tokens do")
	return c
}

func (e *env) runJoin(c *cobra.Command, s *selection, o join.Options, args []string) error {
	format, err := output.ParseFormat(e.format)
	if err != nil {
		return usageError{err}
	}
	all, err := e.contexts(c.Context())
	if err != nil {
		return err
	}
	links, err := s.links(all, args)
	if err != nil {
		return err
	}
	if format != output.Table {
		return e.render(c, links, o, format)
	}
	var done func()
	o.Progress, done = e.progress()
	r, err := join.Join(c.Context(), links, o)
	done()
	return e.finish(r, err)
}

// render prints manifests. What is wrong goes beside them, so that the output can be piped.
func (e *env) render(c *cobra.Command, links []*join.Link, o join.Options, format output.Format) error {
	sets, r, err := join.Render(c.Context(), links, o)
	if err != nil {
		return err
	}
	notes(e.ErrOut, r)
	if format == output.YAML {
		err = join.WriteYAML(e.Out, sets)
	} else {
		err = output.Encode(e.Out, format, sets)
	}
	if err == nil && r.Wrong() {
		err = errors.Join(output.Problems(e.ErrOut, output.NewPainter(e.ErrOut), r.Problems()), errWrong)
	}
	return err
}

// finish prints a report, also that of a command that was interrupted.
func (e *env) finish(r *join.Report, err error) error {
	if r == nil {
		return err
	}
	if shown := e.show(r); shown != nil || err != nil {
		return errors.Join(shown, err)
	}
	if r.Wrong() {
		return errWrong
	}
	return nil
}
