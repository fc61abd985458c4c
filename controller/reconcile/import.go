package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/plan"
)

const (
	// staleDelay gives the caches time to see what a write ran into.
	staleDelay = 20 * time.Millisecond
	// retryDelay is for refusals that end without any object changing: a quota, an address range.
	retryDelay = time.Minute
	// patience is for addresses that the API server has not released yet; it takes a moment, seldom more.
	patience  = 5 * time.Second
	soonDelay = 100 * time.Millisecond
	// attempts bounds the plans of one reconcile: each refusal costs one, and there are few things to leave out.
	attempts = 10
)

var errRefusedTooOften = errors.New("the API server refused each way to make the derived Service")

// imports reconciles ServiceImports.
type imports struct {
	cache  client.Reader
	writer *apply.Writer
	crd    plan.CRD
	now    func() time.Time
	ready  readiness
	lacks  sync.Map // of the imports that wait for their addresses: key -> time.Time of the first refusal
}

// Reconcile gathers, plans and applies. A refusal by the server is one more fact to plan with.
func (r *imports) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	state, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	for range attempts {
		changes := plan.Import(state)
		err := r.writer.Do(ctx, state.Import, changes)
		if refused := new(apply.RefusedError); errors.As(err, &refused) {
			log.FromContext(ctx).V(1).Info("Refused", "error", err)
			state.Refused = append(state.Refused, refused.Refusal)
			state.Patient = r.patient(request.NamespacedName)
			continue
		}
		return r.conclude(ctx, request.NamespacedName, state, changes, err)
	}
	return ctrl.Result{}, errRefusedTooOften
}

// conclude says when to look again. Mostly not at all: the writes themselves come back as events.
func (r *imports) conclude(ctx context.Context, key types.NamespacedName, state plan.State, changes plan.Changes, err error) (ctrl.Result, error) {
	switch {
	case errors.Is(err, apply.ErrStale):
		log.FromContext(ctx).V(1).Info("Reading again", "reason", err.Error())
		return ctrl.Result{RequeueAfter: staleDelay}, nil
	case err != nil:
		return ctrl.Result{}, err
	case changes.Soon:
		return ctrl.Result{RequeueAfter: soonDelay}, nil
	}
	r.lacks.Delete(key)
	switch {
	case state.Import == nil:
		r.ready.forget(key)
	case changes.Ready.Type != "":
		r.ready.set(key, changes.Ready)
	}
	if changes.Retry {
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	}
	return ctrl.Result{}, nil
}

// patient is true for a while after the first of several refusals.
func (r *imports) patient(key types.NamespacedName) bool {
	first, _ := r.lacks.LoadOrStore(key, r.now())
	return r.now().Sub(first.(time.Time)) < patience
}

// gather reads everything that belongs to one import, from the caches: by key or index, never by a list of all.
func (r *imports) gather(ctx context.Context, key types.NamespacedName) (plan.State, error) {
	state := plan.State{CRD: r.crd, Now: metav1.NewTime(r.now()), Last: r.ready.of(key)}
	imp := new(mcsv1beta1.ServiceImport)
	err := r.cache.Get(ctx, key, imp)
	if apierrors.IsNotFound(err) {
		return state, nil
	}
	if err != nil {
		return state, fmt.Errorf("read import %s: %w", key, err)
	}
	state.Import = imp

	svc := new(corev1.Service)
	switch err := r.cache.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: plan.DerivedName(imp)}, svc); {
	case err == nil:
		state.Service = svc
	case !apierrors.IsNotFound(err):
		return state, fmt.Errorf("read derived Service of %s: %w", key, err)
	}

	var services corev1.ServiceList
	if err := r.cache.List(ctx, &services, client.InNamespace(key.Namespace), client.MatchingFields{indexOwner: key.Name}); err != nil {
		return state, fmt.Errorf("list derived Services of %s: %w", key, err)
	}
	for i := range services.Items {
		state.Owned = append(state.Owned, &services.Items[i])
	}
	var slices discoveryv1.EndpointSliceList
	if err := r.cache.List(ctx, &slices, client.InNamespace(key.Namespace), client.MatchingFields{indexImport: key.Name}); err != nil {
		return state, fmt.Errorf("list slices of %s: %w", key, err)
	}
	for i := range slices.Items {
		state.Slices = append(state.Slices, &slices.Items[i])
	}
	state.Holders, err = r.holders(ctx, imp)
	return state, err
}

// holders are the Services that have one of the import's ips.
func (r *imports) holders(ctx context.Context, imp *mcsv1beta1.ServiceImport) ([]*corev1.Service, error) {
	var holders []*corev1.Service
	for _, ip := range plan.ImportAddresses(imp) {
		var services corev1.ServiceList
		if err := r.cache.List(ctx, &services, client.MatchingFields{indexIPs: ip}); err != nil {
			return nil, fmt.Errorf("list Services with the address %s: %w", ip, err)
		}
		for i := range services.Items {
			holders = append(holders, &services.Items[i])
		}
	}
	return holders, nil
}
