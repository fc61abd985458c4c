// Command controllers runs three controllers of kube-controller-manager: those that delete the dependents of deleted owners and the
// content of deleted namespaces, and fill the Secrets that ask for a service account's token. Without the forty others it compiles in
// a fifth of the time. It answers on a Unix socket once it watches every resource.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"

	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	tokens "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

const (
	workers = 5
	// discoverEvery is how long the garbage collector may not know of a new CRD.
	discoverEvery = 5 * time.Second
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of an administrator")
	key := flag.String("service-account-private-key-file", "", "what signs tokens: the API server's own key")
	socket := flag.String("socket", "", "path of the Unix socket on which /healthz is answered")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runAll(ctx, *kubeconfig, *key, *socket); err != nil {
		klog.ErrorS(err, "Not started")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

func runAll(ctx context.Context, kubeconfig, key, socket string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit: a demo waits for these controllers
	c, err := newClients(config)
	if err != nil {
		return err
	}
	started := make(chan struct{})
	collector, err := c.garbageCollector(ctx, started)
	if err != nil {
		return err
	}
	signer, err := c.tokens(ctx, key, config.CAData)
	if err != nil {
		return err
	}
	namespaces := namespace.NewNamespaceController(ctx, c.kube, c.metadata, c.kube.Discovery().ServerPreferredNamespacedResources,
		c.informers.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)

	c.informers.Start(ctx.Done())
	close(started)
	go collector.Run(ctx, workers, 30*time.Second)
	go collector.Sync(ctx, c.kube.Discovery(), discoverEvery)
	go signer.Run(ctx, workers)
	go namespaces.Run(ctx, workers)
	c.informers.WaitForCacheSync(ctx.Done())
	return healthz(ctx, socket)
}

// clients are what the controllers read and write with.
type clients struct {
	kube      kubernetes.Interface
	metadata  metadata.Interface
	informers informers.SharedInformerFactory
}

func newClients(config *rest.Config) (*clients, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	meta, err := metadata.NewForConfig(config)
	return &clients{kube, meta, informers.NewSharedInformerFactory(kube, 0)}, err
}

func (c *clients) garbageCollector(ctx context.Context, started <-chan struct{}) (*garbagecollector.GarbageCollector, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.kube.Discovery()))
	all := informerfactory.NewInformerFactory(c.informers, metadatainformer.NewSharedInformerFactory(c.metadata, 0))
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, c.metadata, mapper, garbagecollector.DefaultIgnoredResources(), all, started)
	return garbagecollector.NewComposedGarbageCollector(ctx, c.kube, c.metadata, mapper, graph)
}

func (c *clients) tokens(ctx context.Context, keyFile string, rootCA []byte) (*tokens.TokensController, error) {
	key, err := keyutil.PrivateKeyFromFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs tokens: %w", err)
	}
	generator, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, key)
	if err != nil {
		return nil, err
	}
	return tokens.NewTokensController(klog.FromContext(ctx), c.informers.Core().V1().ServiceAccounts(), c.informers.Core().V1().Secrets(),
		c.kube, tokens.TokensControllerOptions{TokenGenerator: generator, RootCA: rootCA})
}

// healthz answers until the context is over.
func healthz(ctx context.Context, socket string) error {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") }))
	if ctx.Err() != nil {
		return nil
	}
	return err
}
