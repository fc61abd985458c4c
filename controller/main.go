// Multicluster-controller carries exported Services from cluster to cluster, gives each ServiceImport of its cluster a derived Service,
// and writes that Service's addresses into the import's ips. README.md says who reads and who writes what.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// poll is how often a missing CRD is looked for, and whether it and the cluster's id are still the same: seldom enough to cost nothing.
const poll = 5 * time.Second

func main() {
	var options reconcile.Options
	// --kubeconfig is registered by controller-runtime.
	flag.StringVar(&options.MetricsAddress, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	probes := flag.String("health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	flag.BoolVar(&options.LeaderElect, "leader-elect", true, "write only while holding the Lease; false for a single replica")
	flag.StringVar(&options.Namespace, "namespace", "", "namespace of the Leases and of the peers' Secrets; the pod's own unless given")
	clusterID := flag.String("cluster-id", "", "this cluster's id in the clusterset; unless given, that of ClusterProperty cluster.clusterset.k8s.io, and without one nothing is exported or imported")
	flag.DurationVar(&options.PeerTimeout, "peer-timeout", 5*time.Minute, "how long the endpoints of a peer that cannot be reached stay; 0 for ever")
	flag.IntVar(&options.MaxEndpoints, "max-endpoints-per-slice", 100, "endpoints in an EndpointSlice that is written here, 1 to 1000")
	var level slog.LevelVar
	flag.TextVar(&level, "log-level", &level, "DEBUG, INFO, WARN or ERROR")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Parse()
	if *showVersion {
		_, _ = fmt.Fprintln(os.Stdout, mcs.ControllerName, buildVersion())
		return
	}

	limitGarbage()
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: &level}))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	err := checkArguments()
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), options, *probes, *clusterID, log)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "Ending")
		os.Exit(1)
	}
}

func run(ctx context.Context, options reconcile.Options, probes, clusterID string, log logr.Logger) error {
	cluster, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the API server (outside a cluster, give --kubeconfig): %w", err)
	}
	cluster.UserAgent = mcs.ControllerName + "/" + buildVersion()
	// A bound, should we ever run wild; a first start among 5 000 imports has 40 000 writes. The API server's own flow control is
	// what keeps others from waiting.
	cluster.QPS, cluster.Burst = 1000, 2000
	if options.Probes, err = reconcile.ListenProbes(ctx, probes); err != nil {
		return fmt.Errorf("serve --health-probe-bind-address (another address may be free): %w", err)
	}
	defer options.Probes.Close()
	if options.Namespace, err = namespace(options.Namespace); err != nil {
		return fmt.Errorf("find the pod's namespace (or give --namespace): %w", err)
	}
	if err = check(ctx, options); err != nil {
		return err
	}
	if options.Identity, err = reconcile.NewIdentity(cluster, clusterID); err != nil {
		return err
	}
	options.Poll = poll
	if options.ClusterID, err = options.Identity.Wait(ctx, poll, log); err != nil {
		return err
	}
	if options.ClusterID != "" && options.Namespace == "" {
		return errors.New("outside a pod, a cluster with an id needs --namespace: where its peers' Secrets are")
	}
	if options.CRD, err = reconcile.WaitForCRD(ctx, cluster, options.ClusterID != "", poll, log); err != nil {
		return err
	}
	log.Info("Starting", "version", buildVersion(), "clusterID", options.ClusterID, "serviceimports", options.CRD)
	mgr, err := reconcile.NewManager(ctx, cluster, options)
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	return mgr.Start(ctx)
}
