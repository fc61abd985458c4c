package reconcile

import (
	"cmp"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/peers"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/reflector"
)

// Options of a manager.
type Options struct {
	// CRD is what WaitForCRD found.
	CRD observed.CRD
	// MetricsAddress is where metrics are served; "0" for nowhere.
	MetricsAddress string
	// LeaderElect: one writer at a time, by a Lease.
	LeaderElect bool
	// Namespace is the controller's own: of its Lease, and of what it knows of its peers. Empty: the pod's, for the Lease only.
	Namespace string
	// ClusterID is this cluster's id; empty: it is in no clusterset, and nothing is exported or imported.
	ClusterID string
	// PeerTimeout is how long a peer that cannot be reached counts; 0: for ever.
	PeerTimeout time.Duration
	// MaxEndpoints is how many endpoints a slice of ours holds, 100 unless given.
	MaxEndpoints int
	// ServiceGrace is how long an export without its Service counts with what it had; a minute unless given.
	ServiceGrace time.Duration
	// Identity is where ClusterID came from; nil if it cannot change.
	Identity *Identity
	// Poll is how often the CRD and the identity are looked at again.
	Poll time.Duration
	// Now is the clock, time.Now unless given.
	Now func() time.Time
	// Probes become ready with the caches; may be nil.
	Probes *Probes
}

const (
	leaseName = "multicluster-controller.clusterset-dns.io"
	// workers is small: a reconcile is a handful of writes, and the API server is shared.
	workers = 8
	// firstRetry and lastRetry are after how long a name is tried again that cannot be written. The default's last retry is after 1000 s:
	// so long a name would be out of date after the reason has gone, a quota or an unreachable webhook.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
	// defaultMaxEndpoints is that of Kubernetes' own slices.
	defaultMaxEndpoints = 100
)

// NewManager registers everything; Start it. It refuses an ID that cannot be this cluster's.
func NewManager(ctx context.Context, config *rest.Config, options Options) (manager.Manager, error) {
	config = reflector.DetectDeadConnections(config)
	if options.ClusterID != "" { // Before anything is written.
		if err := peers.CheckID(ctx, config, options.ClusterID, options.Namespace); err != nil {
			return nil, err
		}
	}
	scheme, err := newScheme(options.CRD)
	if err != nil {
		return nil, err
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	ofPeers := ""
	if options.ClusterID != "" {
		ofPeers = options.Namespace
	}
	cached, err := cacheOptions(config, options.CRD, scheme, ofPeers)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Logger:                        quietAtEnd(ctx, ctrl.Log),
		Cache:                         cached,
		Metrics:                       server.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress:        "0", // Probes answers.
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true, // The process ends with the manager.
	})
	if err != nil {
		return nil, err
	}
	watched, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(&crdWatch{watched, options.CRD, options.ClusterID != "", options.Poll}); err != nil {
		return nil, err
	}
	if options.Identity != nil {
		if err := mgr.Add(&idWatch{options.Identity, options.ClusterID, options.Poll}); err != nil {
			return nil, err
		}
	}
	if err := mgr.Add(&syncWatch{mgr.GetCache(), options.Probes}); err != nil {
		return nil, err
	}
	return mgr, addServiceReconciler(ctx, mgr, options)
}

func newLimiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
}

func addServiceReconciler(ctx context.Context, mgr manager.Manager, options Options) error {
	if err := addIndices(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	writer := client.WithFieldOwner(mgr.GetClient(), mcs.ControllerName)
	r := &serviceReconciler{
		cache: mgr.GetCache(),
		writer: &apply.Writer{
			Client: writer, Status: writer, Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(mcs.ControllerName),
		},
		crd: options.CRD,
		now: options.Now,
	}
	r.writer.Written, r.writer.Deleting, r.writer.Healed = r.wrote, r.associations.weDelete, r.associations.healed
	b := ctrl.NewControllerManagedBy(mgr).
		Named("serviceimport").
		Watches(&mcsv1beta1.ServiceImport{}, r.expected.showing(&handler.EnqueueRequestForObject{})).
		Watches(&corev1.Service{}, r.expected.showing(handler.EnqueueRequestsFromMapFunc(r.importsOfService))).
		Watches(&discoveryv1.EndpointSlice{}, r.expected.showing(r.sliceHandler())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             newLimiter(),
			SkipNameValidation:      new(true), // Tests run several.
		})
	if options.ClusterID != "" {
		if err := r.joinClusterset(ctx, mgr, b, options); err != nil {
			return err
		}
	}
	return b.Complete(r)
}

// joinClusterset adds what only a member of a clusterset watches.
func (r *serviceReconciler) joinClusterset(ctx context.Context, mgr manager.Manager, b *builder.Builder, options Options) error {
	registry := peers.New(peers.Options{
		Home: options.ClusterID, Namespace: options.Namespace, Timeout: options.PeerTimeout, UserAgent: mgr.GetConfig().UserAgent,
		Remembered: func(ctx context.Context) ([]string, error) { return remembered(ctx, mgr.GetCache()) },
		Cache:      mgr.GetCache(), Live: mgr.GetAPIReader(), Writer: apply.PeerWriter{Client: r.writer.Client},
		Events: mgr.GetEventRecorder(mcs.ControllerName), Now: options.Now, Log: mgr.GetLogger(),
	})
	names := newNameSource(ctx, registry, mgr.GetCache())
	r.associations.all = true
	r.clusterset = &clusterset{
		home: options.ClusterID, cache: mgr.GetCache(), peers: registry, names: names, maxEndpoints: cmp.Or(options.MaxEndpoints, defaultMaxEndpoints),
		began: options.Now(), now: options.Now, grace: cmp.Or(options.ServiceGrace, serviceGrace),
	}
	b.Watches(&mcsv1beta1.ServiceExport{}, r.expected.showing(handler.EnqueueRequestsFromMapFunc(sameName))).
		Watches(&corev1.Service{}, r.expected.showing(handler.EnqueueRequestsFromMapFunc(sameName))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.clusterset.namesIn)).
		WatchesRawSource(names)
	return mgr.Add(registry)
}
