package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/apply"
	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/plan"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

const (
	// The first and the longest pause after a stale write, until the caches show the newer object.
	// A watch can hang for half a minute.
	staleDelay, mostStaleDelay = 20 * time.Millisecond, 5 * time.Second
	// retryDelay is for refusals that can end without a change of an object: a quota, an address
	// range.
	retryDelay = time.Minute
	// patience is for addresses that the API server has not released yet. It rarely needs more than
	// a moment.
	patience  = 7 * time.Second // The tries are after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s.
	soonDelay = 100 * time.Millisecond
	// attempts limits the plans of one reconcile. Each refusal needs one more plan, and there are
	// few parts to leave out.
	attempts = 10
)

var errRefusedTooOften = errors.New("the API server refused every variant of the derived Service")

// serviceReconciler reconciles one namespace and name: all objects of that Service in the
// clusterset.
type serviceReconciler struct {
	cache      client.Reader
	writer     *apply.Writer
	crd        observed.CRD
	clusterset *clusterset // nil if this cluster is in none
	now        func() time.Time
	memories   memories
	shown      shown
	// associations are the slices that kube-proxy may still use.
	associations associations
}

// Reconcile gathers, plans and applies. It adds each refusal by the server to the state, and what was written before, and plans
// again.
func (r *serviceReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	m := r.memories.of(request.NamespacedName)
	if r.shown.lacks(&m.awaited, time.Now()) {
		// At the latest: the event of the write enqueues the name earlier.
		return ctrl.Result{RequeueAfter: expectFor}, nil
	}
	gathered, err := r.gather(ctx, request.NamespacedName, m)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := pass{serviceReconciler: r, key: request.NamespacedName, memory: m, state: gathered.State, again: gathered.again}
	for range attempts {
		changes := plan.Plan(p.state)
		answers, err := p.write(ctx, &changes)
		if p.learn(err) {
			log.FromContext(ctx).V(1).Info("refused, planning again", "error", err)
			p.take(answers) // what was written before the refusal, so that it is not written again from an older version
			continue
		}
		result, err := p.finish(ctx, changes, err)
		if err != nil || !isStep(&changes) {
			return result, err
		}
		if further, err := p.advance(ctx, answers); err != nil || !further {
			return result, err
		}
	}
	return ctrl.Result{}, errRefusedTooOften
}

// sooner returns the shorter of two times, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// learn adds a refusal to the state. It returns false for any other outcome, and for a refusal that
// the state already contains.
func (p *pass) learn(err error) bool {
	state := &p.state
	service, imp, slices := new(apply.RefusedError), new(apply.ImportRefusedError), apply.SlicesRefusedError{}
	native := new(apply.NativeRefusedError)
	switch {
	case errors.As(err, &native):
		state.Native.Refused = append(state.Native.Refused, native.Refusals...)
		state.KeepTrying = p.patient(native.Refusals)
	case errors.Is(err, apply.ErrHeld):
		state.Contested, _ = p.contested.Held(p.now())
	case errors.As(err, &service):
		state.Refused = append(state.Refused, service.Refusals...)
		state.KeepTrying = p.patient(service.Refusals)
	case errors.As(err, &imp) && state.ImportRefused == "":
		state.ImportRefused = imp.Error()
	case errors.As(err, &slices) && anyNew(state.SlicesRefused, slices):
		all := map[string]string{}
		maps.Copy(all, state.SlicesRefused)
		maps.Copy(all, slices)
		state.SlicesRefused = all
	default:
		return false
	}
	return true
}

// anyNew reports whether more has a name that known does not have.
func anyNew(known, more map[string]string) bool {
	for name := range more {
		if _, old := known[name]; !old {
			return true
		}
	}
	return false
}

// allWritten reports whether everything is written, except slices that must be deleted and that the
// server keeps.
func allWritten(err error) bool { return err == nil || errors.As(err, new(*apply.EvictionError)) }

// conclude returns when to reconcile again. Usually no time is set: the events of the writes
// enqueue the name.
func (p *pass) conclude(ctx context.Context, changes diff.Changes, err error) (ctrl.Result, error) {
	if allWritten(err) && !changes.RetryAddress {
		p.account(ctx, changes)
	}
	switch {
	case errors.Is(err, apply.ErrStale):
		log.FromContext(ctx).V(1).Info("stale, reading again", "reason", err.Error())
		p.stale = min(max(2*p.stale, staleDelay), mostStaleDelay) // until the caches show more
		return ctrl.Result{RequeueAfter: p.stale}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	p.stale = 0
	switch {
	case changes.RetryAddress:
		return ctrl.Result{RequeueAfter: soonDelay}, nil
	case changes.Retry:
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	}
	return ctrl.Result{}, nil
}

// account stores and counts the current conditions of the name, and logs a refused import.
func (p *pass) account(ctx context.Context, changes diff.Changes) {
	p.lacksAddress = time.Time{}
	ready, exports := p.ready, p.exports
	switch {
	case changes.Ready.Type != "":
		ready = changes.Ready
	case p.state.Import == nil:
		ready, p.seen = metav1.Condition{}, false
		gone := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
		p.associations.orphaned(types.NamespacedName{Namespace: p.key.Namespace, Name: ownership.DerivedName(gone)})
	}
	if p.state.ImportRefused != "" { // without an import, no condition can contain it
		log.FromContext(ctx).Info("the API server refused a ServiceImport", "reason", p.state.ImportRefused)
	}
	if len(changes.ExportConditions) > 0 || p.state.Clusterset != nil && p.state.Clusterset.Export == nil {
		exports = changes.ExportConditions
	}
	p.count(ready, exports)
	if p.clusterset != nil && changes.CreateImport != nil {
		p.clusterset.introduced(p.state.Clusterset.Members)
	}
}

// report counts, logs and emits an event for each contested field.
func (r *serviceReconciler) report(ctx context.Context, state observed.State, fields []contested.Field) {
	for _, field := range fields {
		contestedFields.WithLabelValues(field.Label()).Inc()
		log.FromContext(ctx).Info("another writer or the API server reverts a field; leaving it alone for some minutes", "field", field)
		event := desired.Event{Type: corev1.EventTypeWarning, Reason: desired.ReasonContested,
			Message: field.String() + ": another writer, a webhook or the API server reverts this field, so the controller leaves it alone for some minutes. " +
				"Find the other writer with kubectl get --show-managed-fields, and stop it"}
		if field.Kind == "ServiceExport" {
			r.writer.Tell(state.Clusterset.Export, event)
		} else {
			r.writer.Tell(state.Import, event)
		}
	}
}

// wrote records a write immediately after it.
func (p *pass) wrote(object client.Object) {
	p.shown.await(&p.awaited, object, time.Now())
	if slice, ok := object.(*discoveryv1.EndpointSlice); ok && p.clusterset != nil && ownership.SliceIsOurs(slice, nil) {
		p.clusterset.written(slice)
	}
}

// patient reports whether an address is not released yet, and the first of several refusals was less than patience
// ago. Of another reason, such as an address that is not in the range of this cluster, waiting makes no end.
func (p *pass) patient(refused []observed.Refusal) bool {
	if !slices.ContainsFunc(refused, func(r observed.Refusal) bool { return strings.Contains(r.Message, "already allocated") }) {
		return false
	}
	if p.lacksAddress.IsZero() {
		p.lacksAddress = p.now()
	}
	return p.now().Sub(p.lacksAddress) < patience
}
