// Multicluster-controller copies exported Services from cluster to cluster. It creates a derived
// Service for each ServiceImport of its cluster, and writes the addresses of that Service into the
// ips of the import. README.md lists the objects that it reads and writes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/controller/selftest"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// poll is the interval of the checks for a missing CRD, and for a changed CRD or cluster ID.
const poll = 5 * time.Second

func main() {
	if len(os.Args) > 1 && os.Args[1] == "test" {
		os.Exit(selftest.Main(ctrl.SetupSignalHandler(), os.Args[2:]))
	}
	var options reconcile.Options
	// --kubeconfig is registered by controller-runtime.
	probes := addressFlags(&options)
	flag.BoolVar(&options.LeaderElect, "leader-elect", true, "elect a leader, which alone writes; false for a single replica")
	flag.StringVar(&options.Namespace, "namespace", "", "namespace of the Leases and of the peers' Secrets; default: the pod's namespace")
	own := identityFlags()
	flag.IntVar(&options.MaxEndpoints, "max-endpoints-per-slice", 100, "largest number of endpoints in an EndpointSlice that this controller writes, 1 to 1000")
	peerFlags(&options)
	clustersetFlags(&options)
	logs := logFlags()
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()
	if *showVersion {
		_, _ = fmt.Fprintln(os.Stdout, mcs.ControllerName, buildVersion())
		return
	}

	limitMemory()
	log := logr.FromSlogHandler(logs.handler())
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	err := checkArguments(logs.format)
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), options, *probes, *own, log)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "exiting")
		os.Exit(1)
	}
}

func run(ctx context.Context, options reconcile.Options, probes string, given identity, log logr.Logger) error {
	cluster, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (outside a cluster, set --kubeconfig): %w", err)
	}
	cluster.UserAgent = mcs.ControllerName + "/" + buildVersion()
	// Limits the damage of a bug that sends many requests. A first start with 5 000 imports makes
	// 40 000 writes. The flow control of the API server protects its other clients.
	cluster.QPS, cluster.Burst = 1000, 2000
	if options.Probes, err = reconcile.ListenProbes(ctx, probes); err != nil {
		return fmt.Errorf("listen on --health-probe-bind-address (choose another address, or 0 for none): %w", err)
	}
	defer options.Probes.Close()
	if options.Namespace, err = namespace(options.Namespace); err != nil {
		return fmt.Errorf("find the pod's namespace (or set --namespace): %w", err)
	}
	if err = check(ctx, options); err != nil {
		return err
	}
	if options.Identity, err = reconcile.NewIdentity(cluster, given.id, given.properties); err != nil {
		return err
	}
	options.Poll, options.Version = poll, buildVersion()
	if options.ClusterID, err = options.Identity.Wait(ctx, poll, log); err != nil {
		return err
	}
	if options.ClusterID != "" && options.Namespace == "" {
		return errors.New("set --namespace to the namespace of the peers' Secrets (required outside a pod for a cluster with an ID)")
	}
	if options.CRD, err = reconcile.WaitForCRD(ctx, cluster, options.ClusterID != "", poll, log); err != nil {
		return err
	}
	log.Info("starting", "version", buildVersion(), "clusterID", options.ClusterID, "serviceimports", options.CRD)
	mgr, err := reconcile.NewManager(ctx, cluster, options)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return untilDone(ctx, mgr, options.Probes)
}

// untilDone runs the manager until ctx ends. Before its caches are filled, a manager does not end, and keeps a core busy
// (https://github.com/kubernetes-sigs/controller-runtime/pull/3440). Until then it is left alone instead: nothing runs that has to end in good
// order before the process does.
func untilDone(ctx context.Context, mgr manager.Manager, probes *reconcile.Probes) error {
	until, end := context.WithCancel(context.WithoutCancel(ctx))
	ended, left := make(chan error, 1), make(chan struct{})
	context.AfterFunc(ctx, func() {
		if probes.Ready() {
			end()
		} else {
			close(left)
		}
	})
	go func() { ended <- mgr.Start(until) }()
	select {
	case err := <-ended:
		return err
	case <-left:
		return ctx.Err()
	}
}
