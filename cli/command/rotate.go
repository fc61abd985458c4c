package command

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/join"
	"github.com/clusterset-dns/multicluster/cli/output"
)

func newRotate(e *env) *cobra.Command {
	s := &selection{}
	var o join.Options
	c := &cobra.Command{
		Use:   "rotate [CONTEXT...]",
		Short: "Replace the credentials of links, and revoke the old ones",
		Long: `Gives readers new credentials. The links are selected as by join. Links that do not exist are left
alone.

Tokens that do not expire: the reader's token Secret is deleted, which revokes its token, and created
again. Tokens that expire: the reader's account is deleted, which revokes all tokens of this reader,
and created again. Other readers keep their tokens. The new token is stored in the reader a moment
later. Until then the reader keeps what it has read.

-o yaml and -o json change the form of the report only. Unlike those of join, they write to the clusters.`,
		Example: `  kubectl multicluster rotate --mesh
  kubectl multicluster rotate member2 --from member1`,
		Args:              withoutContext,
		ValidArgsFunction: e.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := output.ParseFormat(e.format); err != nil {
				return usageError{err}
			}
			if o.Wait < 0 {
				return usage("--wait %v: expected 0 or more", o.Wait)
			}
			all, err := e.contexts(c.Context())
			if err != nil {
				return err
			}
			links, err := s.links(all, args)
			if err != nil {
				return err
			}
			var done func()
			o.Progress, done = e.progress()
			r, err := join.Rotate(c.Context(), links, o)
			done()
			if err = e.finish(r, err); err != nil {
				return err
			}
			if !slices.ContainsFunc(r.Links, func(l join.Outcome) bool { return l.Change != join.NotJoined }) {
				return errors.New("no link was rotated, because none of them exists: see `kubectl multicluster join --help`")
			}
			return nil
		},
	}
	s.contextFlags(e, c)
	s.meshFlag(c)
	e.formatFlag(c)
	c.Flags().DurationVar(&o.Wait, "wait", defaultWait, "how long to wait for IDs, tokens and connections. 0 does not wait for IDs and connections")
	return c
}
