package reconcile

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// A new name needs four rounds of writes, each of which depends on the one before: the import, its
// Service, the slices with the addresses, the status. They are made in one pass, from what the API server
// answered. To wait for the caches after each of them would take four more passes. Another writer in
// between makes the next write fail, because each carries the resourceVersion of the last answer. The
// events of the writes then cause one more pass, which reads the caches.

// mostSteps is the number of times that a pass plans again from the answers of the API server.
const mostSteps = 4

// pass is one reconcile of a name.
type pass struct {
	*serviceReconciler
	*memory
	key   types.NamespacedName
	state observed.State
	again time.Duration // until the next gather if nothing else happens; 0 for never
	steps int
}

// write makes the writes of a plan. It returns the objects that the API server answered with.
func (p *pass) write(ctx context.Context, changes *diff.Changes) (answers []client.Object, err error) {
	w := *p.writer
	w.Contested, w.Now, w.News = &p.contested, p.now(), func(fields []contested.Field) { p.report(ctx, p.state, fields) }
	w.Written = func(object client.Object) {
		p.wrote(object)
		answers = append(answers, object)
	}
	cautious := p.refusals.Over(w.Client, p.now())
	w.Client = cautious
	err = w.Do(ctx, p.state, *changes)
	p.again = sooner(p.again, cautious.Next)
	return answers, err
}

// finish stores what a plan leaves for the next one, and returns when that has to be made at the latest.
func (p *pass) finish(ctx context.Context, changes diff.Changes, err error) (ctrl.Result, error) {
	p.Memory, p.state.Memory = changes.Memory, changes.Memory
	p.settled.Store(changes.Writes() == 0)
	if p.clusterset != nil {
		p.clusterset.peers.Check(p.key, changes.Check)
	}
	if changes.Native.Delete != nil && err == nil { // nobody else needs the name
		p.native = replaced{}
	}
	p.again = sooner(p.again, changes.Again)
	result, err := p.conclude(ctx, changes, err)
	if err == nil && p.again > 0 && (result.RequeueAfter == 0 || p.again < result.RequeueAfter) {
		result.RequeueAfter = p.again
	}
	if err == nil {
		p.memories.forget(p.key, p.state)
	}
	return result, err
}

// isStep reports whether the changes create a name, or fill an import, and nothing else. Their answers are
// the whole new state. What else there can be to do waits for the caches.
func isStep(c *diff.Changes) bool {
	others := len(c.Evict) + len(c.Heal) + len(c.DeleteSlices) + len(c.MoveSlices) + len(c.SwitchSlices) + len(c.Slices) + len(c.Delete)
	return (c.CreateImport != nil || c.Create != nil || c.Import != nil) &&
		others == 0 && c.Native == diff.Native{} && c.Service == nil && c.ServiceStatus == nil && !c.RetryAddress && !c.Retry
}

// advance puts written objects into the state. It reports whether the next plan can be made from it.
func (p *pass) advance(ctx context.Context, written []client.Object) (bool, error) {
	if p.steps++; p.steps > mostSteps {
		return false, nil
	}
	created := p.state.Import == nil
	if !p.take(written) || p.state.Import == nil || !ownership.OfImport(p.state.Import) {
		return false, nil
	}
	if created {
		return true, p.gatherDerived(ctx, p.key, &p.state, p.memory)
	}
	return true, nil
}

// take puts written objects into the state. It reports whether all of them are parts of a step.
func (p *pass) take(written []client.Object) (all bool) {
	all = true
	p.state.Slices = slices.Clone(p.state.Slices)
	for _, object := range written {
		if svc, is := object.(*corev1.Service); is {
			ownership.KeepApplied(svc)
		}
		object.SetManagedFields(nil) // as in the caches
		all = put(&p.state, object) && all
	}
	return all
}

// put puts a written object into a state. It returns false for an object that is no part of a step.
func put(state *observed.State, object client.Object) bool {
	switch object := object.(type) {
	case *mcsv1beta1.ServiceImport:
		state.Import, state.Answered = object, true
	case *corev1.Service:
		if _, native := object.Labels[mcs.LabelNativeOf]; native {
			return false
		}
		state.Service = object
		others := slices.DeleteFunc(slices.Clone(state.Owned), func(of *corev1.Service) bool { return of.Name == object.Name })
		state.Owned = append(others, object)
	case *discoveryv1.EndpointSlice:
		if _, attached := object.Labels[mcs.LabelNativeOf]; attached {
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
