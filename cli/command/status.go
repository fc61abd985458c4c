package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/status"
)

func newStatus(e *env) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the clusters, and who reads whom",
		Long: `Shows one row for each cluster, who reads whom, what is wrong, and the command that comes next.

The exit status is 1 if something is wrong, also if a cluster cannot be read.`,
		Example: "  kubectl multicluster status\n  kubectl multicluster status --contexts member1,member2 -o json",
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := output.ParseFormat(e.format); err != nil {
				return usageError{err}
			}
			all, err := e.selected(c.Context(), names)
			if err != nil {
				return err
			}
			found := status.Read(c.Context(), all, time.Now())
			if err := e.report(found, found.Print); err != nil {
				return err
			}
			if len(found.Problems) > 0 {
				return errWrong
			}
			return nil
		},
	}
	e.contextsFlag(c, &names)
	e.formatFlag(c)
	return c
}
