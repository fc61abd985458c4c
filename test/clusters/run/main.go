// Command run starts real Kubernetes clusters on this machine, for people: without arguments, it prints what it can do. The addresses follow from
// INDEX, 1 to 9: see the package's comment (go doc ./test/clusters).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"text/tabwriter"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

var errUsage = errors.New(`usage:
  up NAME INDEX                start a cluster (INDEX 1 to 9) and print its kubeconfig's path
  load NAME ARCHIVE...         load image archives into its node
  list                         list the clusters
  fault NAME VERB [ADDRESS...] cut or reconnect its network, freeze or thaw its API server, block or unblock addresses, or end it
  down NAME...                 end clusters, and remove all that is of them
  images FOLDER                write the archives of the tools and of a stock CoreDNS, for clusters elsewhere`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	verb, args := args[0], args[1:]
	switch n := len(args); {
	case verb == "up" && n == 2:
		return up(ctx, args[0], args[1])
	case verb == "load" && n > 1:
		return load(ctx, args[0], args[1:])
	case verb == "list" && n == 0:
		return list(ctx)
	case verb == "fault" && n > 1:
		c, err := clusters.Open(ctx, args[0])
		if err != nil {
			return err
		}
		return c.Fault(ctx, args[1], args[2:]...)
	case verb == "down" && n > 0:
		return down(ctx, args)
	case verb == "images" && n == 1:
		return images.Export(ctx, args[0])
	}
	return errUsage
}

func up(ctx context.Context, name, number string) error {
	index, err := strconv.Atoi(number)
	if err != nil {
		return errUsage
	}
	c, err := clusters.Start(ctx, clusters.Options{Name: name, Index: index})
	if err != nil {
		return err
	}
	fmt.Println(c.Kubeconfig)
	return nil
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

func list(ctx context.Context) error {
	all, err := clusters.List(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tPROCESSES\tNODE\tPODS\tDNS\tKUBECONFIG") // errors come with Flush
	for _, c := range all {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\n", c.Name, c.Running(), c.Node, c.Pods, c.DNS, c.Kubeconfig)
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
