package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// SystemNamespace is the controller's own.
const SystemNamespace = "multicluster-system"

// Cluster is one member.
type Cluster struct {
	*kube.Cluster
	ID string
	// Admin may do everything, past all caches.
	Admin client.Client
	// Account is the controller's own identity, Reader the one that peers read with.
	Account, Reader *rest.Config
	// ReaderKubeconfig is the text of a kubeconfig of Reader.
	ReaderKubeconfig []byte

	end func() error
}

// Scheme has all kinds that tests write and read.
var Scheme = SchemeOf("v1beta1")

// SchemeOf has the types of mcs-api under the version that a server has: no field differs (A2).
func SchemeOf(version string) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		panic(err) // the types are compiled in
	}
	gv := schema.GroupVersion{Group: mcsv1beta1.GroupName, Version: version}
	s.AddKnownTypes(gv, &mcsv1beta1.ServiceImport{}, &mcsv1beta1.ServiceImportList{}, &mcsv1beta1.ServiceExport{}, &mcsv1beta1.ServiceExportList{})
	metav1.AddToGroupVersion(s, gv)
	return s
}

// Start gives a cluster with the newest CRDs and the accounts, and without a controller.
func Start(ctx context.Context, id string, options kube.Options) (*Cluster, error) {
	return StartWith(ctx, id, options, kube.BothVersions, "v1beta1")
}

// StartWith does so with another form of the CRDs. The test itself uses the given version.
func StartWith(ctx context.Context, id string, options kube.Options, form kube.CRDs, version string) (*Cluster, error) {
	c, err := kube.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	member := &Cluster{Cluster: c, ID: id}
	if err := member.prepare(ctx, form, version); err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("prepare cluster %s: %w", id, err)
	}
	return member, nil
}

func (c *Cluster) prepare(ctx context.Context, form kube.CRDs, version string) (err error) {
	if err := c.InstallCRDs(ctx, form); err != nil {
		return err
	}
	if err := c.StartControllers(ctx); err != nil {
		return err
	}
	if c.Admin, err = client.New(c.Config, client.Options{Scheme: SchemeOf(version)}); err != nil {
		return err
	}
	return c.Install(ctx)
}

// Install makes the controller's namespace, and the accounts of the controller and of peers, as README does.
func (c *Cluster) Install(ctx context.Context) (err error) {
	for _, folder := range []string{"controller", "peer"} {
		if _, err := binaries.Kubectl(ctx, c.Cluster, "apply", "-k", filepath.Join("deploy", folder)); err != nil {
			return err
		}
	}
	if c.Account, _, err = c.ServiceAccount(ctx, SystemNamespace, mcs.ControllerName); err != nil {
		return err
	}
	var path string
	if c.Reader, path, err = c.ServiceAccount(ctx, SystemNamespace, "multicluster-peer"); err != nil {
		return err
	}
	c.ReaderKubeconfig, err = os.ReadFile(path)
	return err
}

// serviceGrace is short: tests delete Services, and wait for what follows.
const serviceGrace = time.Second

// poll is how often a controller looks at its CRDs and its identity again: the tests do not change them.
const poll = time.Minute

// Stop ends the controller and the cluster.
func (c *Cluster) Stop() error {
	return errors.Join(c.End(), c.Cluster.Stop())
}

// Run lets a controller work, in this process, until its context ends or End is called.
func (c *Cluster) Run(ctx context.Context, change ...func(*reconcile.Options)) error {
	options := reconcile.Options{ClusterID: c.ID, Namespace: SystemNamespace, MetricsAddress: "0", Poll: poll, ServiceGrace: serviceGrace, Version: "v1"}
	for _, edit := range change {
		edit(&options)
	}
	var err error
	if options.CRD, err = reconcile.WaitForCRD(ctx, c.Account, true, 20*time.Millisecond, logr.Discard()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	mgr, err := reconcile.NewManager(ctx, c.Account, options)
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	c.end = func() error {
		cancel()
		return <-ended
	}
	return nil
}

// End ends the controller, if there is one, and waits for it.
func (c *Cluster) End() error {
	if c.end == nil {
		return nil
	}
	end := c.end
	c.end = nil
	return end()
}

// Join lets this cluster read a peer, as `kubectl multicluster join` does.
func (c *Cluster) Join(ctx context.Context, peer string, kubeconfig []byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: peer, Labels: map[string]string{mcs.LabelPeer: "true"}},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}
	err := c.Admin.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Admin.Update(ctx, secret)
	}
	return err
}

// Leave marks a peer's Secret and Lease, and deletes the Secret, as `kubectl multicluster leave` does.
func (c *Cluster) Leave(ctx context.Context, peer string) error {
	at := metav1.ObjectMeta{Namespace: SystemNamespace, Name: peer}
	mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"clusterset-dns.io/leaving":"true"}}}`))
	for _, object := range []client.Object{&corev1.Secret{ObjectMeta: at}, &coordinationv1.Lease{ObjectMeta: at}} {
		if err := c.Admin.Patch(ctx, object, mark); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return c.Lose(ctx, peer)
}

// Lose deletes a peer's Secret.
func (c *Cluster) Lose(ctx context.Context, peer string) error {
	return client.IgnoreNotFound(c.Admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: peer}}))
}

// Imported are the slices of a name that came from a cluster, by the ids of their clusters.
func (c *Cluster) Imported(ctx context.Context, name client.ObjectKey) (map[string][]discoveryv1.EndpointSlice, error) {
	var all discoveryv1.EndpointSliceList
	if err := c.Admin.List(ctx, &all, client.InNamespace(name.Namespace), client.MatchingLabels{mcsv1beta1.LabelServiceName: name.Name}); err != nil {
		return nil, err
	}
	by := map[string][]discoveryv1.EndpointSlice{}
	for _, slice := range all.Items {
		source := slice.Labels[mcsv1beta1.LabelSourceCluster]
		by[source] = append(by[source], slice)
	}
	return by, nil
}

// clean deletes what a controller and tests have written: the namespaces of tests, and in the controller's own
// namespace the Secrets of peers and the Leases.
func (c *Cluster) clean(ctx context.Context) error {
	own := client.InNamespace(SystemNamespace)
	failed := []error{c.End(), c.Admin.DeleteAllOf(ctx, new(corev1.Secret), own, client.HasLabels{mcs.LabelPeer}), c.Admin.DeleteAllOf(ctx, new(coordinationv1.Lease), own)}
	var all corev1.NamespaceList
	failed = append(failed, c.Admin.List(ctx, &all))
	for _, n := range all.Items {
		if ofATest(n.Name) && n.DeletionTimestamp == nil {
			failed = append(failed, client.IgnoreNotFound(c.Admin.Delete(ctx, &n)))
		}
	}
	return errors.Join(failed...)
}

func (c *Cluster) isEmpty(ctx context.Context) error {
	var all corev1.NamespaceList
	if err := c.Admin.List(ctx, &all); err != nil {
		return err
	}
	for _, n := range all.Items {
		if ofATest(n.Name) {
			return fmt.Errorf("namespace %s of %s is there", n.Name, c.ID)
		}
	}
	return nil
}

func ofATest(namespace string) bool {
	return namespace != SystemNamespace && namespace != "default" && !strings.HasPrefix(namespace, "kube-")
}
