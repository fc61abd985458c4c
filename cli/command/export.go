package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/export"
	"github.com/clusterset-dns/multicluster/cli/output"
)

func newExport(e *env) *cobra.Command {
	var o export.Options
	c := &cobra.Command{
		Use:   "export SERVICE",
		Short: "Export a Service to the clusterset",
		Long: `Creates the ServiceExport of a Service of the context's namespace, or of --namespace, and waits until
the controller has exported it. If there is one already, nothing is written.

The exit status is 1 if the export is not ready, or if clusters disagree about the Service.`,
		Example: "  kubectl multicluster export foo\n  kubectl multicluster export svc/foo --namespace shop --context member1 --wait 1m",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			cluster, err := e.target(c.Context(), args[0], &o.Namespace, &o.Name)
			if err != nil {
				return err
			}
			found, err := export.Export(c.Context(), cluster, o)
			return e.exported(found, err)
		},
	}
	c.Flags().DurationVar(&o.Wait, "wait", 30*time.Second, "how long to wait for the conditions; 0 does not wait")
	e.formatFlag(c)
	return c
}

func newUnexport(e *env) *cobra.Command {
	var names []string
	c := &cobra.Command{
		Use:   "unexport SERVICE",
		Short: "End the export of a Service",
		Long: `Deletes the ServiceExport of a Service of the context's namespace, or of --namespace, and shows which
contexts imported the name from this cluster. A ServiceExport of auto-export is not deleted: the
controller would create it again. The output has the command that ends it.`,
		Example: "  kubectl multicluster unexport foo --namespace shop --context member1",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			var namespace, name string
			cluster, err := e.target(c.Context(), args[0], &namespace, &name)
			if err != nil {
				return err
			}
			others, err := e.others(c.Context(), cluster, names)
			if err != nil {
				return err
			}
			found, err := export.Unexport(c.Context(), cluster, others, namespace, name)
			return e.exported(found, err)
		},
	}
	c.Flags().StringSliceVar(&names, "contexts", nil, "contexts in which to look for imports, with commas; default: all")
	_ = c.RegisterFlagCompletionFunc("contexts", e.contextNames)
	e.formatFlag(c)
	return c
}

// target returns the cluster, the namespace and the name of the Service that an argument names.
func (e *env) target(ctx context.Context, argument string, namespace, name *string) (*clusters.Cluster, error) {
	_, err := output.ParseFormat(e.format)
	if err == nil {
		*name, err = export.ParseName(argument)
	}
	if err != nil {
		return nil, usageError{err}
	}
	all, err := e.contexts(ctx)
	if err != nil {
		return nil, err
	}
	if *namespace, _, err = e.kube.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, err
	}
	if all.Current() == "" {
		return nil, usage("the kubeconfig has no current context: set --context")
	}
	found, err := all.Select([]string{all.Current()})
	if err != nil {
		return nil, usageError{err}
	}
	return found[0], nil
}

// others returns the clusters of the named contexts, else of all, without one. A context that cannot be
// used does not keep the others from being read.
func (e *env) others(ctx context.Context, without *clusters.Cluster, names []string) ([]*clusters.Cluster, error) {
	all, err := e.contexts(ctx)
	if err != nil {
		return nil, err
	}
	found, err := all.Select(names)
	if err != nil && len(names) > 0 {
		return nil, usageError{err}
	}
	var kept []*clusters.Cluster
	for _, one := range found {
		if one.Context != without.Context {
			kept = append(kept, one)
		}
	}
	return kept, nil
}

func (e *env) exported(found export.Report, err error) error {
	if err != nil && found.Action == export.Unchanged {
		return err
	}
	// What was written is shown, also if the wait for conditions was interrupted.
	if err := errors.Join(err, e.report(found, found.Print)); err != nil {
		return err
	}
	if len(found.Problems) > 0 {
		return errWrong
	}
	return nil
}
