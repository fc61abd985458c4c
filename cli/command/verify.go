package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/cli/verify"
)

func newVerify(e *env) *cobra.Command {
	var o verify.Options
	var server string
	c := &cobra.Command{
		Use:   "verify CONTEXT CONTEXT",
		Short: "Prove with pods that two clusters reach each other by name",
		Long: `Creates a temporary namespace with one pod in both clusters, exports a Service from each, waits until
the other one imports it, resolves its name in the other pod, and sends HTTP requests. It measures each
step.

Everything is removed at the end, also after a failure and after Ctrl-C. A second Ctrl-C ends the program
at once. The next run removes what is left, one hour after its creation.`,
		Example: "  kubectl multicluster verify member1 member2\n" +
			"  kubectl multicluster verify member1 member2 --image registry.example.org/agnhost:2.47",
		Args:              twoContexts,
		ValidArgsFunction: e.contextNames,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := output.ParseFormat(e.format); err != nil {
				return usageError{err}
			}
			o.Server = strings.Fields(server)
			switch {
			case o.Requests < 1 || o.Requests > 1000:
				return usage("--requests %d: expected 1 to 1000", o.Requests)
			case len(o.Server) == 0:
				return usage("--server: expected the command of the server in the image")
			case o.Timeout <= 0:
				return usage("--timeout %v: expected more than 0", o.Timeout)
			}
			found, err := e.both(c, args)
			if err != nil {
				return err
			}
			o.Progress = e.step
			report, err := verify.Run(c.Context(), found[0], found[1], o)
			if errors.Is(err, verify.ErrSameCluster) {
				return usageError{err}
			}
			if len(report.Directions) > 0 || len(report.Left) > 0 {
				err = errors.Join(err, e.report(report, report.Print))
			}
			if err == nil && len(report.Problems) > 0 {
				return errWrong
			}
			return err
		},
	}
	c.Flags().StringVar(&o.Image, "image", verify.DefaultImage, "image of the pods, with the server, getent and curl")
	c.Flags().StringVar(&server, "server", verify.DefaultServer, "command of the server in that image; it answers HTTP at port 8080")
	c.Flags().DurationVar(&o.Timeout, "timeout", verify.DefaultTimeout, "how long each step may take")
	c.Flags().IntVar(&o.Requests, "requests", verify.DefaultRequests, "number of HTTP requests in each direction")
	c.Flags().BoolVar(&o.Keep, "keep", false, "leave the namespaces if a step fails, to look at them")
	e.formatFlag(c)
	return c
}

// twoContexts is the check of the arguments of verify.
func twoContexts(c *cobra.Command, args []string) error {
	switch {
	case len(args) != 2:
		return usage("expected two contexts of the kubeconfig, such as `kubectl multicluster verify member1 member2`: got %d", len(args))
	case args[0] == args[1]:
		return usage("expected two different contexts: got %s twice", output.Quote(args[0]))
	}
	return withoutContext(c, args)
}

// both returns the clusters of two contexts.
func (e *env) both(c *cobra.Command, names []string) ([]*clusters.Cluster, error) {
	all, err := e.contexts(c.Context())
	if err != nil {
		return nil, err
	}
	found, err := all.Select(names)
	if err != nil {
		return nil, usageError{err}
	}
	return found, nil
}

// step writes what a command does now, for people who wait at a terminal.
func (e *env) step(text string) {
	if output.IsTerminal(e.ErrOut) {
		_, _ = fmt.Fprintln(e.ErrOut, output.Clean(text))
	}
}
