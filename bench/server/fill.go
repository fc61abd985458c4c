package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// writers keep an API server on two cores busy, without queueing up there.
const writers = 32

// world is a cluster, and what speaks to it.
type world struct {
	*controlplane.Cluster
	api client.Client
}

// newWorld starts a cluster with the CRDs as the in-tree plugin needs them too, which reads v1alpha1 only, and empty namespaces.
func newWorld(ctx context.Context) (*world, error) {
	// Every five minutes an API server reads all imports from etcd, twice, and compares them with its cache. With 100 000 imports that
	// takes it up to 15 s of CPU: the first answer of whoever starts just then would be seconds later.
	c, err := controlplane.Start(ctx, controlplane.Options{APIServerFlags: []string{"--feature-gates=DetectCacheInconsistency=false"}})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: c}
	if err := w.prepare(ctx); err != nil {
		_ = c.Stop() // what went wrong before matters more
		return nil, err
	}
	return w, nil
}

func (w *world) prepare(ctx context.Context) error {
	if err := w.InstallCRDs(ctx, controlplane.BothVersions); err != nil {
		return err
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, mcsv1beta1.Install} {
		if err := add(known); err != nil {
			return err
		}
	}
	var err error
	if w.api, err = client.New(w.Config, client.Options{Scheme: known}); err != nil {
		return err
	}
	for _, name := range namespaces {
		if err := w.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}

// fill creates count objects, numbered from 0, many at a time, and prints its progress.
func (b *bench) fill(ctx context.Context, w *world, what string, count int, objects func(int) []client.Object) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(count) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := w.create(ctx, objects(int(i))); err != nil {
					cancel(err)
				}
				done.Add(1)
			}
		})
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	begin := time.Now()
	b.watch(ended, func() { b.say("  %d of %d %s, %.0f s", done.Load(), count, what, time.Since(begin).Seconds()) })
	return context.Cause(ctx)
}

// watch says something every ten seconds, and at the end.
func (b *bench) watch(ended <-chan struct{}, say func()) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			say()
		case <-ended:
			say()
			return
		}
	}
}

func (w *world) create(ctx context.Context, objects []client.Object) error {
	for _, object := range objects {
		if err := w.api.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	return nil
}

// empty deletes all that fill made in a namespace.
func (w *world) empty(ctx context.Context, namespace string) error {
	for _, kind := range []client.Object{&mcsv1beta1.ServiceImport{}, &discoveryv1.EndpointSlice{}} {
		if err := w.api.DeleteAllOf(ctx, kind, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("empty %s: %w", namespace, err)
		}
	}
	return nil
}
