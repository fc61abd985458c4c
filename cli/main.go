// Kubectl-multicluster joins clusters into a clusterset, shows their state, and explains why a name
// does not work. It runs as `kubectl multicluster` when it is in PATH, and on its own.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/clusterset-dns/multicluster/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), signals()...)
	// The first signal cancels the context, so that `verify` and `join` can clean up. The second one ends
	// the process, because the handler is gone.
	context.AfterFunc(ctx, stop)
	// client-go logs what it also returns as errors, with texts of servers.
	klog.SetLogger(logr.Discard())
	os.Exit(command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// signals are those that end the program. SIGHUP comes when the terminal is closed. It stays ignored
// under nohup.
func signals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
