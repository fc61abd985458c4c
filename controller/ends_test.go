package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/apiserver"
)

// TestEndsBeforeItsCachesAreFilled: the API server answers, but not what it has: the process ends with SIGTERM all the same, also if that comes
// before anything is known. controller-runtime would wait for ever, with a busy core. Found by test/simulation.
func TestEndsBeforeItsCachesAreFilled(t *testing.T) {
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	server := httptest.NewServer(apiserver.New(apiserver.Options{Admit: func(r *apiserver.Request) error {
		if r.Verb != "list" && r.Verb != "watch" {
			return nil
		}
		once()
		return apierrors.NewServiceUnavailable("it is not ready")
	}}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, UserAgent: "multicluster-controller/test"}
	ctx, stop := context.WithCancel(t.Context())
	options := reconcile.Options{Namespace: "default", MetricsAddress: "0", Poll: time.Minute}
	var err error
	if options.Probes, err = reconcile.ListenProbes(ctx, "0"); err != nil {
		t.Fatal(err)
	}
	if options.CRD, err = reconcile.WaitForCRD(ctx, config, false, time.Minute, logr.Discard()); err != nil {
		t.Fatal(err)
	}
	mgr, err := reconcile.NewManager(ctx, config, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-asked; stop() }()
	if err := untilDone(ctx, mgr, options.Probes); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}
