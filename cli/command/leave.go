package command

import (
	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/join"
	"github.com/clusterset-dns/multicluster/cli/output"
)

func newLeave(e *env) *cobra.Command {
	s := &selection{onlyFirst: true, mayBeGone: true}
	c := &cobra.Command{
		Use:   "leave CONTEXT [OTHER...]",
		Short: "Let clusters stop reading each other",
		Long: `Undoes join. The first cluster leaves the others: it stops reading them, and they stop reading it. The
others stay joined with each other. With --all, it leaves the clusters of all other contexts. With
--from, the arguments stop reading the clusters that it names, one way only.

The reader marks and deletes the Secret first, so that its controller removes at once what came from
the other cluster. Then the token of the reader is revoked. The account is deleted when no reader uses
it, unless a Helm release has it.

Each side is cleaned, even if the other one does not answer or no longer exists. Its ID is then
required, with --id. The commands for its side are printed.

-o yaml and -o json change the form of the report only. Unlike those of join, they write to the clusters.`,
		Example: `  kubectl multicluster leave member1 member2 member3          # member2 and member3 stay joined
  kubectl multicluster leave member1 --all
  kubectl multicluster leave member2 --from member1           # member2 stops reading member1, one way
  kubectl multicluster leave member1 dead --id dead=member9   # the context dead does not answer`,
		Args:              withoutContext,
		ValidArgsFunction: e.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := output.ParseFormat(e.format); err != nil {
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
			r, err := join.Leave(c.Context(), links)
			if err == nil && s.all {
				r.Remaining(c.Context(), links[0].From) // which is the cluster that leaves
			}
			return e.finish(r, err)
		},
	}
	s.contextFlags(e, c)
	c.Flags().BoolVar(&s.all, "all", false, "leave the clusters of all other contexts of the kubeconfig, each once")
	e.formatFlag(c)
	return c
}
