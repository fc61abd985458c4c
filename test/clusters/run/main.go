// Command run starts real Kubernetes clusters on this machine, for people:
//
//	go run ./test/clusters/run up NAME INDEX [--no-nodes]   prints the kubeconfig's path
//	go run ./test/clusters/run load NAME ARCHIVE...         images into its node
//	go run ./test/clusters/run list
//	go run ./test/clusters/run fault NAME VERB [ADDRESS...]  makes it fail in one way, or takes that back (clusters.Fault)
//	go run ./test/clusters/run down NAME...
//	go run ./test/clusters/run images FOLDER                the images that tests need beside ours, for clusters elsewhere
//
// The addresses follow from INDEX, 1 to 9: see the package's comment (go doc ./test/clusters).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

var errUsage = errors.New(`usage:
  up NAME INDEX [--no-nodes]   start a cluster (INDEX 1 to 9) and print its kubeconfig's path
  load NAME ARCHIVE...         load image archives into its node
  list                         list the clusters
  fault NAME VERB [ADDRESS...] cut or reconnect its network, freeze or thaw its API server, block or unblock addresses, or end it
  down NAME...                 end clusters, and remove all that is of them
  images FOLDER                write the archives of the tools and of a stock CoreDNS, for clusters elsewhere`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// verbs are the commands, with the numbers of arguments that each takes; most is 0 for any number, and -1 for
// none.
var verbs = map[string]struct {
	least, most int
	do          func(ctx context.Context, out io.Writer, args []string) error
}{
	"up": {2, 3, func(ctx context.Context, out io.Writer, args []string) error {
		if len(args) == 3 && args[2] != "--no-nodes" {
			return errUsage
		}
		return up(ctx, out, args[0], args[1], len(args) == 3)
	}},
	"load": {2, 0, func(ctx context.Context, _ io.Writer, args []string) error { return load(ctx, args[0], args[1:]) }},
	"list": {0, -1, func(ctx context.Context, out io.Writer, _ []string) error { return list(ctx, out) }},
	"fault": {2, 0, func(ctx context.Context, _ io.Writer, args []string) error {
		c, err := clusters.Open(ctx, args[0])
		if err != nil {
			return err
		}
		return c.Fault(ctx, args[1], args[2:]...)
	}},
	"down":   {1, 0, func(ctx context.Context, _ io.Writer, args []string) error { return down(ctx, args) }},
	"images": {1, 1, func(ctx context.Context, out io.Writer, args []string) error { return export(ctx, out, args[0]) }},
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	verb, known := verbs[args[0]]
	if n := len(args) - 1; !known || n < verb.least || verb.most != 0 && n > max(verb.most, 0) {
		return errUsage
	}
	return verb.do(ctx, out, args[1:])
}

func up(ctx context.Context, out io.Writer, name, number string, noNodes bool) error {
	index, err := strconv.Atoi(number)
	if err != nil {
		return errUsage
	}
	c, err := clusters.Start(ctx, clusters.Options{Name: name, Index: index, NoNodes: noNodes, Progress: os.Stderr})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, c.Kubeconfig)
	return err
}

func load(ctx context.Context, name string, archives []string) error {
	c, err := clusters.Open(ctx, name)
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := c.Load(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

func list(ctx context.Context, out io.Writer) error {
	all, err := clusters.List(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tPROCESSES\tNODE\tPODS\tDNS\tKUBECONFIG") // errors come with Flush
	for _, c := range all {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", c.Name, c.Running(), c.NodeIPs[0], c.PodCIDRs[0], c.DNS, c.Kubeconfig)
	}
	return table.Flush()
}

func down(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, clusters.Remove(ctx, name))
	}
	return errors.Join(errs...)
}

func export(ctx context.Context, out io.Writer, folder string) error {
	names, err := images.Export(ctx, os.Stderr, folder)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, file := range slices.Sorted(maps.Keys(names)) {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", file, names[file])
	}
	return table.Flush()
}
