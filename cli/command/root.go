// Package command is the command line of kubectl-multicluster: one file for each command, with its
// flags and its help. What a command does is in a package of its own.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// The exit statuses. Scripts rely on them.
const (
	statusFine  = 0
	statusWrong = 1 // something is wrong in a cluster, or the command failed
	statusUsage = 2 // wrong flags or arguments
)

// version is set by the linker.
var version = "unknown"

// errWrong ends a command with the status 1. What is wrong is printed already.
var errWrong = errors.New("something is wrong")

// usageError ends a command with the status 2.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// env is what all commands share.
type env struct {
	genericiooptions.IOStreams
	kube   *genericclioptions.ConfigFlags
	name   string // of the program, as the user calls it
	format string // the value of -o
}

// contexts reads the user's kubeconfig.
func (e *env) contexts(ctx context.Context) (*clusters.Contexts, error) {
	all, err := clusters.Load(ctx, e.kube)
	if err != nil {
		return nil, err
	}
	if given := *e.kube.Context; given != "" && !slices.Contains(all.Names(), given) {
		return nil, usage("--context: %w %q: the kubeconfig has %s", clusters.ErrUnknownContext, given, output.List(all.Names(), 10))
	}
	return all, nil
}

// checkFlags finds the values of flags of all commands that are wrong, and removes spaces around the
// names in lists of contexts.
func (e *env) checkFlags(c *cobra.Command, _ []string) error {
	if given := *e.kube.Timeout; given != "" {
		if _, err := clientcmd.ParseTimeout(given); err != nil {
			return usage("--request-timeout %s: expected a time with a unit, such as 30s", output.Quote(given))
		}
	}
	for _, name := range []string{"contexts", "from"} {
		flag := c.Flags().Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		list, ok := flag.Value.(pflag.SliceValue)
		if !ok {
			continue
		}
		names := list.GetSlice()
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		if len(names) == 0 || slices.Contains(names, "") {
			return usage("--%s: expected names of contexts, with commas", name)
		}
		if err := list.Replace(names); err != nil {
			return usage("--%s: %w", name, err)
		}
	}
	return nil
}

// withoutContext is the check of the arguments of a command that names its clusters itself: --context
// and --namespace would change nothing.
func withoutContext(c *cobra.Command, _ []string) error {
	for _, name := range []string{"context", "namespace"} {
		if c.Flags().Changed(name) {
			return usage("--%s has no meaning for %s: give contexts as arguments", name, c.Name())
		}
	}
	return nil
}

// report prints what a command found: as JSON or YAML, or for people by the function.
func (e *env) report(found any, people func(io.Writer, output.Painter) error) error {
	format, err := output.ParseFormat(e.format)
	if err != nil {
		return usageError{err}
	}
	if format != output.Table {
		return output.Encode(e.Out, format, found)
	}
	return people(e.Out, output.NewPainter(e.Out))
}

// contextsFlag adds --contexts to a command.
func (e *env) contextsFlag(c *cobra.Command, names *[]string) {
	c.Flags().StringSliceVar(names, "contexts", nil, "contexts of the kubeconfig, with commas; default: all")
	_ = c.RegisterFlagCompletionFunc("contexts", e.contextNames)
}

// selected returns the clusters of --contexts, else the one of --context, else all. If nobody asked for a
// context by name, an entry of the kubeconfig that cannot be used is left out, with a note.
func (e *env) selected(ctx context.Context, names []string) ([]*clusters.Cluster, error) {
	all, err := e.contexts(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && *e.kube.Context != "" {
		return nil, usage("--context and --contexts exclude each other: remove one of them")
	}
	if len(names) == 0 && *e.kube.Context != "" {
		names = []string{*e.kube.Context}
	}
	found, err := all.Select(names)
	switch {
	case errors.Is(err, clusters.ErrUnknownContext):
		return nil, usageError{err}
	case err != nil && len(names) == 0 && len(found) > 0:
		for _, line := range strings.Split(err.Error(), "\n") {
			_, _ = fmt.Fprintf(e.ErrOut, "left out: %s\n", output.Clean(line))
		}
		return found, nil
	}
	return found, err
}

// formatFlag adds -o to a command.
func (e *env) formatFlag(c *cobra.Command) {
	c.Flags().StringVarP(&e.format, "output", "o", string(output.Table), output.Formats)
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// contextNames completes the names of contexts.
func (e *env) contextNames(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := e.contexts(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var left []string
	for _, name := range all.Names() {
		if !slices.Contains(given, name) {
			left = append(left, name)
		}
	}
	return left, cobra.ShellCompDirectiveNoFileComp
}

// Main runs the command line and returns its exit status: 0 if all is well, 1 if something is wrong,
// and 2 if the arguments are wrong.
func Main(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	e := &env{
		IOStreams: genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut},
		kube:      kubeFlags(),
		name:      calledAs(os.Args[0]),
	}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return statusFine
	case errors.Is(err, errWrong):
		return statusWrong
	case errors.As(err, new(usageError)):
		_, _ = fmt.Fprintf(errOut, "%s: %s\n", e.name, output.Clean(err.Error()))
		_, _ = fmt.Fprintf(errOut, "Run '%s --help' for the flags and arguments.\n", e.name)
		return statusUsage
	default:
		for _, line := range strings.Split(err.Error(), "\n") {
			_, _ = fmt.Fprintf(errOut, "%s: %s\n", e.name, output.Clean(line))
		}
		return statusWrong
	}
}

// kubeFlags are the flags of kubectl that have a meaning for several clusters. Those that set the
// address or the credentials of one cluster are left out.
func kubeFlags() *genericclioptions.ConfigFlags {
	all := genericclioptions.NewConfigFlags(true)
	return &genericclioptions.ConfigFlags{
		KubeConfig: all.KubeConfig, Context: all.Context, Namespace: all.Namespace, Timeout: all.Timeout,
		Impersonate: all.Impersonate, ImpersonateGroup: all.ImpersonateGroup, ImpersonateUID: all.ImpersonateUID,
	}
}

// calledAs is "kubectl multicluster" if kubectl started the program, as it names plugins.
func calledAs(program string) string {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if name == "kubectl-multicluster" {
		return "kubectl multicluster"
	}
	return name
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-multicluster",
		Short: "Join clusters, see their state, and explain names of the clusterset",
		Long: `Joins clusters into a clusterset, shows their state, and explains why a name does not work.

The clusters are contexts of your kubeconfig. Only join, leave, rotate, export, unexport and verify
write. The exit status is 0 if all is well, 1 if something is wrong, and 2 if the arguments are wrong.`,
		Version:           version,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl multicluster"},
		DisableAutoGenTag: true,
		Args:              knownCommand,
		PersistentPreRunE: e.checkFlags,

		SuggestionsMinimumDistance: 2,
		RunE:                       func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	e.kube.AddFlags(root.PersistentFlags())
	timeout := root.PersistentFlags().Lookup("request-timeout")
	timeout.DefValue = clusters.RequestTimeout.String()
	timeout.Usage = "The time for one request to an API server, with a unit (such as 1s, 2m, 3h). 0 is the default"
	_ = root.RegisterFlagCompletionFunc("context", func(c *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return e.contextNames(c, nil, text)
	})
	for _, add := range commands {
		root.AddCommand(add(e))
	}
	return root
}

// commands are the constructors of the subcommands. Each file of this package has one.
var commands = []func(*env) *cobra.Command{
	newStatus,
	newJoin,
	newLeave,
	newRotate,
	newExplain,
	newCheck,
	newExport,
	newGather,
	newUnexport,
	newVerify,
}

// arguments turns the errors of cobra's checks of arguments into usage errors.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// knownCommand is the check of the arguments of the program itself: it has only subcommands.
func knownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	known := c.SuggestionsFor(args[0])
	if len(known) == 0 {
		return usage("unknown command %q", args[0])
	}
	return usage("unknown command %q: did you mean %s?", args[0], output.List(known, 3))
}
