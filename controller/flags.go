package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
)

// podNamespace is where a pod finds the name of its namespace; the default of --leader-election-namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// check finds what the manager would refuse, before the wait for the CRD, which may be long, and by the name of its flag.
func check(ctx context.Context, options reconcile.Options) error {
	if options.LeaderElect && options.LeaderElectionNamespace == "" {
		if _, err := os.Stat(podNamespace); errors.Is(err, fs.ErrNotExist) {
			return errors.New("outside a pod, give --leader-election-namespace, or --leader-elect=false")
		}
	}
	if options.MetricsAddress == "" || options.MetricsAddress == "0" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", options.MetricsAddress)
	if err != nil {
		return fmt.Errorf("serve --metrics-bind-address (another address may be free, 0 is for none): %w", err)
	}
	return listener.Close() // The manager listens anew.
}

// checkArguments refuses what is no flag: a forgotten dash would else leave a default in force.
func checkArguments() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: there are only flags, see --help", flag.Arg(0))
	}
	return nil
}
