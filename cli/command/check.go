package command

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/output"
)

func newCheck(e *env) *cobra.Command {
	var names []string
	var pre bool
	c := &cobra.Command{
		Use:   "check",
		Short: "Find what is wrong with an installation, or with a cluster before it",
		Long: `Checks the CRDs, your rights, the controllers, the DNS servers and their Corefiles, the networks, the
clocks and the tokens. Each check has an ID, and a fix where it fails. It writes nothing: a pod with the
priority class of the installation is only tried, in a dry run.

With --pre, it checks what an installation needs.

The exit status is 1 if a check failed. Warnings, and what cannot be read (unknown), do not change it.`,
		Example: "  kubectl multicluster check\n  kubectl multicluster check --pre --contexts member1,member2",
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := output.ParseFormat(e.format); err != nil {
				return usageError{err}
			}
			all, err := e.selected(c.Context(), names)
			if err != nil {
				return err
			}
			found := check.Run(c.Context(), all, check.Options{Pre: pre, Now: time.Now})
			if err := e.report(found, found.Print); err != nil {
				return err
			}
			if found.Failed() {
				return errWrong
			}
			return nil
		},
	}
	c.Flags().BoolVar(&pre, "pre", false, "check what an installation needs")
	e.contextsFlag(c, &names)
	e.formatFlag(c)
	return c
}
