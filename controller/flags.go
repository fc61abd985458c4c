package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
)

// podNamespace is where a pod finds the name of its namespace; the default of --namespace.
const podNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is the flag's, else the pod's own; empty outside of a pod.
func namespace(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	text, err := os.ReadFile(podNamespace)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// check finds what the manager would refuse, before the wait for the CRD, which may be long, and by the name of its flag.
func check(ctx context.Context, options reconcile.Options) error {
	if options.LeaderElect && options.Namespace == "" {
		return errors.New("outside a pod, give --namespace, or --leader-elect=false")
	}
	if options.MaxEndpoints < 1 || options.MaxEndpoints > 1000 {
		return fmt.Errorf("--max-endpoints-per-slice %d is not from 1 to 1000", options.MaxEndpoints)
	}
	if options.PeerTimeout < 0 {
		return fmt.Errorf("--peer-timeout %s is negative; 0 keeps the endpoints for ever", options.PeerTimeout)
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
