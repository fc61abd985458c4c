package check

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/system"
)

// fact is one answer of a cluster, or the reason why there is none. An object that does not exist is
// nil, without an error.
type fact[T any] struct {
	value T
	err   error
}

func factOf[T any](value T, err error) fact[T] { return fact[T]{value, err} }

// facts are all that the checks need of one cluster.
type facts struct {
	context string
	now     time.Time // of the local clock, when the API server answered

	server     fact[system.Server]
	identity   fact[system.Identity]
	peers      fact[[]system.Peer]
	denied     fact[[]right]
	crds       [2]fact[*apiextensionsv1.CustomResourceDefinition] // as in crdNames
	controller fact[*appsv1.Deployment]
	second     fact[*appsv1.Deployment]
	secondAt   fact[*corev1.Service]
	clusterDNS fact[[]appsv1.Deployment]
	daemons    fact[[]appsv1.DaemonSet]
	corefile   fact[*corev1.ConfigMap]
	custom     fact[*corev1.ConfigMap]
	nodeLocal  fact[*corev1.ConfigMap]
	cilium     fact[*corev1.ConfigMap]
	network    fact[networks]
	priorities []priority
}

const (
	// requests bounds the requests to one API server at once.
	requests = 8
	// kubeDNS selects the cluster's own DNS.
	kubeDNS = "k8s-app=kube-dns"
	// secondDNS is the name of the second CoreDNS, and of its namespace if kustomize installed it.
	secondDNS = "multicluster-dns"
)

var (
	crdNames    = [2]string{"serviceexports.multicluster.x-k8s.io", "serviceimports.multicluster.x-k8s.io"}
	crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// readFacts asks a cluster for everything, unless it does not answer the first request.
func readFacts(ctx context.Context, c *clusters.Cluster, o Options) *facts {
	f := &facts{context: c.Context}
	f.server = factOf(system.ReadServer(ctx, c.Config, o.Now))
	f.now = o.Now()
	if f.server.err != nil {
		return f
	}
	reading := errgroup.Group{}
	reading.SetLimit(requests)
	read := func(do func()) { reading.Go(func() error { do(); return nil }) }
	read(func() { f.identity = factOf(system.ReadIdentity(ctx, c.Kube)) })
	read(func() { f.denied = factOf(deniedRights(ctx, c.Kube, o.Pre)) })
	for i, name := range crdNames {
		read(func() { f.crds[i] = factOf(readCRD(ctx, c, name)) })
	}
	read(func() { f.clusterDNS = factOf(readClusterDNS(ctx, c)) })
	read(func() { f.daemons = factOf(readDaemons(ctx, c)) })
	read(func() { f.network = factOf(readNetworks(ctx, c.Kube)) })
	for name, into := range map[string]*fact[*corev1.ConfigMap]{
		"coredns": &f.corefile, "coredns-custom": &f.custom, "node-local-dns": &f.nodeLocal, "cilium-config": &f.cilium,
	} {
		read(func() {
			*into = factOf(found(c.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})))
		})
	}
	read(func() { f.readSecond(ctx, c) })
	if !o.Pre {
		read(func() { f.peers = factOf(system.ReadPeers(ctx, c.Kube)) })
		read(func() {
			f.controller = factOf(found(c.Kube.AppsV1().Deployments(system.Namespace).Get(ctx, system.Controller, metav1.GetOptions{})))
		})
	}
	_ = reading.Wait() // no function returns an error
	f.readPriorities(ctx, c.Kube)
	return f
}

// found turns the error that an object does not exist into nil.
func found[T any](one *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return one, nil
}

func readCRD(ctx context.Context, c *clusters.Cluster, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	object, err := found(c.Dynamic.Resource(crdResource).Get(ctx, name, metav1.GetOptions{}))
	if err != nil || object == nil {
		return nil, err
	}
	d := new(apiextensionsv1.CustomResourceDefinition)
	return d, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d)
}

func readClusterDNS(ctx context.Context, c *clusters.Cluster) ([]appsv1.Deployment, error) {
	list, err := c.Kube.AppsV1().Deployments(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: kubeDNS, Limit: 20})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

func readDaemons(ctx context.Context, c *clusters.Cluster) ([]appsv1.DaemonSet, error) {
	list, err := c.Kube.AppsV1().DaemonSets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{Limit: 500})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// readSecond looks where the chart and where kustomize install the second CoreDNS.
func (f *facts) readSecond(ctx context.Context, c *clusters.Cluster) {
	for _, namespace := range []string{system.Namespace, secondDNS} {
		f.second = factOf(found(c.Kube.AppsV1().Deployments(namespace).Get(ctx, secondDNS, metav1.GetOptions{})))
		if f.second.err != nil {
			return
		}
		if f.second.value == nil {
			continue
		}
		f.secondAt = factOf(found(c.Kube.CoreV1().Services(namespace).Get(ctx, secondDNS, metav1.GetOptions{})))
		return
	}
}
