package reconcile

import (
	"cmp"
	"context"
	"runtime"
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

// Options are the options of a manager.
type Options struct {
	// CRD is the result of WaitForCRD.
	CRD observed.CRD
	// MetricsAddress is the address of the metrics; "0" for none.
	MetricsAddress string
	// PprofAddress is the address of /debug/pprof; "" for none. It has no authentication.
	PprofAddress string
	// Version is the version of the program, for the metric multicluster_build_info and for peers.
	Version string
	// LeaderElect selects one writer at a time with a Lease.
	LeaderElect bool
	// Namespace is the controller's own namespace. It contains the Lease of the controller, and the
	// Secrets and Leases of peers. If it is empty, the Lease is in the pod's namespace.
	Namespace string
	// ClusterID is the ID of this cluster. If it is empty, the cluster is not in a clusterset, and
	// nothing is exported or imported.
	ClusterID string
	// PeerTimeout is how long a peer that cannot be reached counts, 0 for forever.
	PeerTimeout time.Duration
	// CutOffTimeout is how long a peer with a silent API server counts as connected because its
	// endpoints answer, 0 for as long as they do.
	CutOffTimeout time.Duration
	// KeepLastEndpoints keeps the endpoints of a peer that is only assumed to be dead, for names
	// without any other ready endpoint.
	KeepLastEndpoints bool
	// ProbePeers opens TCP connections to endpoints of peers, which show whether a silent peer is dead.
	ProbePeers bool
	// Heartbeat is the pause between two heartbeats, and ProbeInterval that between two connections to one
	// endpoint of a peer whose API server answers. Both are 30 s by default.
	Heartbeat, ProbeInterval time.Duration
	// MaxEndpoints is the maximum number of endpoints in a slice that the controller writes. The
	// default is 100.
	MaxEndpoints int
	// ServiceGrace is how long an export without its Service keeps its last data. The default is a
	// minute.
	ServiceGrace time.Duration
	// ImportNamespaces are the namespaces that exports of peers are imported to.
	ImportNamespaces Namespaces
	// ExportNamespaces are the namespaces that this cluster exports from.
	ExportNamespaces Namespaces
	// NativeNames are the namespaces in which an export can ask for the Service's own name. The zero
	// value selects none.
	NativeNames Namespaces
	// AutoExport is whether Services are exported by labels and annotations. AutoExportAnnotation is
	// another annotation with the same meaning, or "".
	AutoExport           AutoExport
	AutoExportAnnotation string
	// ClusterProfiles is the namespace of the ClusterProfiles with the addresses of peers, or "".
	ClusterProfiles string
	// Identity is the source of ClusterID; nil if it cannot change.
	Identity *Identity
	// Poll is the interval of the checks of the CRD and the identity.
	Poll time.Duration
	// Now returns the time. The default is time.Now.
	Now func() time.Time
	// Transport and Connect replace the network to the API servers and the endpoints of peers, for a clusterset in one process.
	Transport peers.Transport
	Connect   peers.Connect
	// Probes become ready when the caches are synced. May be nil.
	Probes *Probes
}

const (
	leaseName = "multicluster-controller.clusterset-dns.io"
	// workers is small: a reconcile needs only a few writes, and the API server is shared.
	workers = 8
	// firstRetry and lastRetry are the shortest and longest pause before a failed name is tried
	// again. The default for the longest pause is 1000 s. A name would stay outdated for that long
	// after the cause is gone, such as a quota or an unreachable webhook.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
	// propertyPolls is the interval between two reads of ClusterProperties, in Polls: they seldom change.
	propertyPolls = 6
	// defaultMaxEndpoints is the default of Kubernetes for its own slices.
	defaultMaxEndpoints = 100
)

// NewManager creates a manager with all controllers. The caller starts it. NewManager rejects an ID
// that cannot be this cluster's.
func NewManager(ctx context.Context, config *rest.Config, options Options) (manager.Manager, error) {
	config = reflector.DetectDeadConnections(config)
	config.DisableCompression = true // the API server is near, and would compress each event of a watch by itself
	if options.ClusterID != "" {     // before any write
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
		PprofBindAddress:              options.PprofAddress,
		HealthProbeBindAddress:        "0", // Probes serves them
		LeaderElection:                options.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       options.Namespace,
		LeaderElectionReleaseOnCancel: true, // the process ends with the manager
	})
	if err != nil {
		return nil, err
	}
	buildInfo.WithLabelValues(options.Version, runtime.Version()).Set(1)
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
	r.writer.Repaired = r.associations.repaired
	b := ctrl.NewControllerManagedBy(mgr).
		Named("serviceimport").
		Watches(&mcsv1beta1.ServiceImport{}, r.shown.before(&handler.EnqueueRequestForObject{})).
		Watches(&corev1.Service{}, r.shown.before(handler.EnqueueRequestsFromMapFunc(r.namesOfService))).
		Watches(&discoveryv1.EndpointSlice{}, r.shown.before(r.sliceHandler())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             newLimiter(),
			SkipNameValidation:      new(true), // tests run several
		})
	if options.ClusterID != "" {
		if err := r.joinClusterset(ctx, mgr, b, options); err != nil {
			return err
		}
	}
	return b.Complete(r)
}

// joinClusterset adds the watches that only a member of a clusterset needs.
func (r *serviceReconciler) joinClusterset(ctx context.Context, mgr manager.Manager, b *builder.Builder, options Options) error {
	ofPeers := peers.Options{
		ExportsAll: options.ExportNamespaces.selector == nil, Home: options.ClusterID, Namespace: options.Namespace, Timeout: options.PeerTimeout, CutOffTimeout: options.CutOffTimeout, Heartbeat: options.Heartbeat, ProbeInterval: options.ProbeInterval, Version: options.Version, UserAgent: mgr.GetConfig().UserAgent,
		Remembered: func(ctx context.Context) ([]string, error) { return remembered(ctx, mgr.GetCache()) },
		Cache:      mgr.GetCache(), Live: mgr.GetAPIReader(), Writer: apply.PeerWriter{Client: r.writer.Client},
		Events: mgr.GetEventRecorder(mcs.ControllerName), Now: options.Now, Log: mgr.GetLogger(),
		Profiles: options.ClusterProfiles, Config: mgr.GetConfig(), Transport: options.Transport,
	}
	if ofPeers.Connect = options.Connect; options.ProbePeers && options.Connect == nil {
		ofPeers.Connect = peers.ConnectTCP
	}
	registry := peers.New(ofPeers)
	readyEndpoints.cache.Store(&endpointCache{mgr.GetCache(), ctx})
	if options.Identity != nil {
		watch := &propertyWatch{options.Identity, propertyPolls * options.Poll, registry.SetProperties, mgr.GetLogger()}
		if err := mgr.Add(watch); err != nil {
			return err
		}
	}
	names := newNameSource(ctx, options.ClusterID, registry, mgr.GetCache())
	r.clusterset = &clusterset{
		home: options.ClusterID, cache: mgr.GetCache(), peers: registry, names: names, maxEndpoints: cmp.Or(options.MaxEndpoints, defaultMaxEndpoints),
		began: options.Now(), now: options.Now, grace: cmp.Or(options.ServiceGrace, serviceGrace),
		imports: options.ImportNamespaces, natives: options.NativeNames, own: options.Namespace, keepLast: options.KeepLastEndpoints, probes: options.ProbePeers,
	}
	b.Watches(&mcsv1beta1.ServiceExport{}, r.shown.before(handler.EnqueueRequestsFromMapFunc(sameName))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.clusterset.namesIn), ofNamespaces).
		WatchesRawSource(names)
	e := &exporter{
		Namespaces: options.ExportNamespaces, own: options.Namespace, cache: mgr.GetCache(), peers: registry, now: options.Now,
		grace: r.clusterset.grace, wake: make(chan struct{}, 1), deselected: map[string]deselected{},
	}
	r.clusterset.exporter = e
	if options.ExportNamespaces.selector != nil {
		if err := mgr.Add(e); err != nil {
			return err
		}
	}
	if err := addAutoExport(mgr, options, r.clusterset.grace); err != nil {
		return err
	}
	return mgr.Add(registry)
}
