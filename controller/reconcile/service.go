package reconcile

import (
	"context"
	"errors"
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
	"github.com/clusterset-dns/multicluster/internal/mcs"
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
	patience = 7 * time.Second // The tries are after 0.1, 0.3, 0.7, 1.5, 3.1 and 6.3 s.
	// attempts limits the plans of one pass. A new name needs five, and each refusal one more: there are few
	// parts to leave out.
	attempts = 15
)

var errNoEnd = errors.New("the API server refuses everything that the controller can write")

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

// pass is one reconcile of a name.
type pass struct {
	*serviceReconciler
	*memory
	key   types.NamespacedName
	state observed.State
	again time.Duration // until the next pass if nothing else happens; 0 for never
}

// Reconcile gathers, plans and writes, until there is nothing more to write.
//
// A new name needs four rounds of writes, each of which depends on the one before: the import, its
// Service, the slices with the addresses, the status. They are made in one pass, from what the API server
// answered. To wait for the caches after each of them would take four more passes. Another writer in
// between makes the next write fail, because each carries the resourceVersion of the last answer. The
// events of the writes then cause one more pass, which reads the caches.
func (r *serviceReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	p := &pass{serviceReconciler: r, memory: r.memories.of(request.NamespacedName), key: request.NamespacedName}
	if r.shown.lacks(&p.awaited, time.Now()) {
		// At the latest: the event of the write enqueues the name earlier.
		return ctrl.Result{RequeueAfter: expectFor}, nil
	}
	if err := p.gather(ctx); err != nil {
		return ctrl.Result{}, err
	}
	for range attempts {
		changes := plan.Plan(p.state)
		outcomes, aside := p.write(ctx, changes)
		if more, err := p.absorb(ctx, changes, outcomes); err != nil || !more {
			return p.finish(ctx, changes, errors.Join(err, outcomes.Err()), aside)
		}
	}
	return ctrl.Result{}, errNoEnd
}

// write makes the writes of a plan.
func (p *pass) write(ctx context.Context, changes diff.Changes) (outcomes apply.Outcomes, aside error) {
	w := *p.writer
	w.Refusals, w.Contested, w.Now, w.News = &p.refusals, &p.contested, p.now(), func(fields []contested.Field) { p.report(ctx, p.state, fields) }
	outcomes, aside = w.Do(ctx, p.state, changes)
	p.next(w.Next)
	return outcomes, aside
}

// absorb puts what became of the writes into the state. It reports whether there can be more to write: something
// else in the place of what was refused, or what depends on a new object. What else there can be waits for the
// caches.
func (p *pass) absorb(ctx context.Context, changes diff.Changes, outcomes apply.Outcomes) (more bool, err error) {
	p.Memory, p.state.Memory = changes.Memory, changes.Memory
	created, refused, step := p.state.Import == nil, false, len(changes.Evict)+len(changes.Repair) == 0
	p.state.Slices = slices.Clone(p.state.Slices)
	for _, o := range outcomes {
		switch o.Result {
		case apply.Created, apply.Changed:
			p.wrote(o.Object)
			step = p.put(o) && step
		case apply.Refused:
			p.leaveOut(o)
			refused = true
		case apply.Held:
			p.state.Contested, _ = p.contested.Held(p.now())
			refused = true
		case apply.Deleted:
			step = false
			p.state.Slices = slices.DeleteFunc(p.state.Slices, func(of *discoveryv1.EndpointSlice) bool { return of == o.Object })
		default:
			step = false
		}
	}
	switch {
	case outcomes.Err() != nil:
		return false, nil
	case changes.Native.Delete != nil: // nobody else needs the name
		p.native = replaced{}
	case created && p.state.Import != nil:
		p.clusterset.introduced(p.state.Clusterset.Members)
		return true, p.gatherDerived(ctx)
	}
	begins := changes.Create != nil || changes.Import != nil
	return refused || step && begins && ownership.OfImport(p.state.Import), nil
}

// put puts the API server's answer into the state. It returns false for an object whose consequences the caches
// have to show.
func (p *pass) put(o apply.Outcome) bool {
	state := &p.state
	if svc, is := o.Object.(*corev1.Service); is {
		ownership.KeepApplied(svc)
	}
	o.Object.SetManagedFields(nil) // as in the caches
	switch object := o.Object.(type) {
	case *mcsv1beta1.ServiceImport:
		state.Import, state.Answered = object, true
	case *corev1.Service:
		if object.Labels[mcs.LabelNativeOf] != "" {
			return false
		}
		state.Service = object
		others := slices.DeleteFunc(slices.Clone(state.Owned), func(of *corev1.Service) bool { return of.Name == object.Name })
		state.Owned = append(others, object)
		return o.Result == apply.Created
	case *discoveryv1.EndpointSlice:
		if object.Labels[mcs.LabelNativeOf] != "" {
			return false // It belongs to the Service with the import's own name.
		}
		i := slices.IndexFunc(state.Slices, func(of *discoveryv1.EndpointSlice) bool { return of.Name == object.Name })
		if i < 0 {
			state.Slices = append(state.Slices, object)
		} else {
			state.Slices[i] = object
		}
	default:
		return false
	}
	return true
}

// leaveOut adds what the API server refused to the state.
func (p *pass) leaveOut(o apply.Outcome) {
	if p.state.Refused == nil {
		p.state.Refused = observed.Refused{}
	}
	p.state.Refused[o.Target()] = append(p.state.Refused[o.Target()], o.Refusals...)
	p.state.KeepTrying = p.patient(o.Refusals)
}

// wrote records a write, and how long it took.
func (p *pass) wrote(object client.Object) {
	p.shown.await(&p.awaited, object, time.Now())
	if slice, ok := object.(*discoveryv1.EndpointSlice); ok && p.clusterset != nil && ownership.SliceIsOurs(slice, nil) {
		p.clusterset.written(slice)
	}
}

// finish stores what the last plan leaves for the next pass, and returns when that has to begin at the latest.
// aside is the error of writes on which nothing depends.
func (p *pass) finish(ctx context.Context, changes diff.Changes, err, aside error) (ctrl.Result, error) {
	if p.clusterset != nil {
		p.clusterset.peers.Check(p.key, changes.Check)
	}
	if err == nil {
		p.countConditions(ctx, changes)
	}
	switch err := errors.Join(err, aside); {
	case errors.Is(err, apply.ErrStale):
		log.FromContext(ctx).V(1).Info("stale, reading again", "reason", err.Error())
		p.stale = min(max(2*p.stale, staleDelay), mostStaleDelay) // until the caches show more
		return ctrl.Result{RequeueAfter: p.stale}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	p.stale = 0
	p.memories.forget(p.key, p.state)
	p.next(changes.Again)
	if len(p.state.Refused)+len(changes.Notes) > 0 {
		p.next(retryDelay)
	}
	return ctrl.Result{RequeueAfter: p.again}, nil
}

// countConditions counts the current conditions of the name, and logs a refused import.
func (p *pass) countConditions(ctx context.Context, changes diff.Changes) {
	if len(p.state.Refused) == 0 {
		p.lacksAddress = time.Time{}
	}
	ready, exports := p.ready, p.exports
	switch {
	case changes.Ready.Type != "":
		ready = changes.Ready
	case p.state.Import == nil:
		ready, p.seen = metav1.Condition{}, false
		gone := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
		p.associations.orphaned(types.NamespacedName{Namespace: p.key.Namespace, Name: ownership.DerivedName(gone)})
	}
	if fault := p.state.Refused.Import(); fault != "" { // without an import, no condition can contain it
		log.FromContext(ctx).Info("the API server refused a ServiceImport", "reason", fault)
	}
	if len(changes.ExportConditions) > 0 || p.state.Clusterset != nil && p.state.Clusterset.Export == nil {
		exports = changes.ExportConditions
	}
	p.count(ready, exports)
}

// next makes the next pass begin after a pause at the latest, 0 for never.
func (p *pass) next(pause time.Duration) { p.again = observed.Sooner(p.again, pause) }

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
