package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Result is what became of a write.
type Result int

const (
	// Created, Changed and Deleted mean that the write was made.
	Created Result = iota
	Changed
	Deleted
	// Refused means that the API server will answer the same again. The next plan leaves out what was refused.
	Refused
	// Held means that the API server accepted the write and nothing changed: it does not know the fields, or a
	// webhook sets them. They are held from now on.
	Held
	// Stale means that the plan was made from objects that have changed since.
	Stale
	// Failed means that a retry can help.
	Failed
)

// Outcome is what became of the write of one object.
type Outcome struct {
	Result
	// Object is the API server's answer, or what was to be written.
	Object client.Object
	// Refusals are the faults that the API server named, those of later ports first, so that each of them can
	// be left out in turn.
	Refusals []observed.Refusal
	Err      error
}

// Outcomes are the outcomes of all writes of a plan, in their order.
type Outcomes []Outcome

// Err returns the errors of the writes that must be tried again.
func (all Outcomes) Err() error {
	var errs []error
	for _, o := range all {
		if o.Result == Stale || o.Result == Failed {
			errs = append(errs, o.Err)
		}
	}
	return errors.Join(errs...)
}

// made reports whether all writes were made.
func (all Outcomes) made() bool {
	return !slices.ContainsFunc(all, func(o Outcome) bool { return o.Err != nil })
}

func (all Outcomes) stale() bool {
	return slices.ContainsFunc(all, func(o Outcome) bool { return o.Result == Stale })
}

// note records what became of a write.
func (w *Writer) note(result Result, object client.Object, err error) {
	if isRefusal(err) {
		w.outcomes = append(w.outcomes, Outcome{Result: Refused, Object: object, Refusals: refusals(object, err), Err: err})
		return
	}
	w.must(result, object, err)
}

// must is for a write that no plan can leave out.
func (w *Writer) must(result Result, object client.Object, err error) {
	switch {
	case err == nil:
	case errors.Is(err, errHeld):
		result = Held
	case errors.Is(err, ErrStale):
		result = Stale
	default:
		result = Failed
	}
	w.outcomes = append(w.outcomes, Outcome{Result: result, Object: object, Err: err})
}

var (
	// ErrStale means that the plan was made from objects that have changed since.
	ErrStale = errors.New("the objects have changed since they were read")
	// errNotOurs guards against a plan that writes an object that the controller does not own. It
	// is never expected.
	errNotOurs = errors.New("not an object that this controller made")
	// errOtherType means that a leak cannot be repaired at present. kube-proxy has one cache for
	// each IP family. While a slice of the other address type has the name, an empty slice of the
	// leak's address type cannot be created under it.
	errOtherType = errors.New("an EndpointSlice of this name has the other address type: delete it")
	// errHeld means that the API server accepted a write and nothing changed, and errNoEffect the same of fields
	// that are never held.
	errHeld     = errors.New("a write had no effect")
	errNoEffect = errors.New("the API server or a webhook has undone the change")
	// errForeignSlice means that a slice of another owner has the name that a slice of the
	// controller needs.
	errForeignSlice = errors.New("an EndpointSlice of this name exists and the controller does not own it: delete it")
)

// wrap adds the verb and the object to an error, and marks the errors which mean that the plan was
// made from a stale object.
func wrap(err error, verb string, obj client.Object) error {
	switch {
	case err == nil:
		return nil
	case (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)) && !denied(err.Error()) && !fieldConflict(err):
		return fmt.Errorf("%s %s/%s: %w: %w", verb, obj.GetNamespace(), obj.GetName(), ErrStale, err)
	default:
		return fmt.Errorf("%s %s/%s: %w", verb, obj.GetNamespace(), obj.GetName(), err)
	}
}

// denied reports whether a message is that of a webhook or a policy. A webhook chooses the code of its answer: 409 is not
// always a conflict.
func denied(message string) bool {
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request")
}

func apiStatus(err error) apierrors.APIStatus {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	return status
}

// isRefusal reports whether the API server answered, and will answer the same again: it found a fault in what was sent, a
// webhook or a policy denied it or has undone it, or could not be asked, or there is no address or no room, or somebody
// else has the name or the field. An API server that is not there, or that knows a newer object, has refused nothing.
func isRefusal(err error) bool {
	status := apiStatus(err)
	switch {
	case errors.Is(err, errForeignSlice), errors.Is(err, errNoEffect):
		return true
	case status == nil || errors.Is(err, ErrStale):
		return false
	case denied(status.Status().Message), fieldConflict(err):
		return true
	}
	switch status.Status().Code {
	case 400, 403, 405, 413, 415, 422, 429, 500, 507:
		return true
	}
	return false
}

// fieldConflict reports whether another writer owns a field of a Service that is applied.
func fieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// refusals returns the faults that the API server named. Only those of a Service are read: something of it can
// be left out.
func refusals(of client.Object, err error) []observed.Refusal {
	_, isService := of.(*corev1.Service)
	status := apiStatus(err)
	switch {
	case isService && errors.Is(err, errNoEffect):
		return []observed.Refusal{{Message: errNoEffect.Error()}}
	case !isService || status == nil:
		return []observed.Refusal{{Message: err.Error()}}
	}
	text := status.Status().Message
	switch details := status.Status().Details; {
	case strings.Contains(text, "failed to allocate a serviceIP") && strings.Contains(text, "range is full"):
		// As the API server says it: kubernetes pkg/registry/core/service/storage/alloc.go.
		return []observed.Refusal{{Field: "spec.clusterIPs", Message: text}}
	case details != nil && len(details.Causes) > 0 && !fieldConflict(err):
		return refusalsOf(details.Causes)
	default:
		return []observed.Refusal{{Message: text}}
	}
}

// refusalsOf returns one Refusal for each faulty port, and the first of any other fault. The indices of
// the ports are those of one Service: the last port is left out first.
func refusalsOf(causes []metav1.StatusCause) (all []observed.Refusal) {
	ports := map[int]observed.Refusal{}
	for _, cause := range causes {
		r := observed.Refusal{Field: cause.Field, Message: cause.Message}
		at := 0
		n, err := fmt.Sscanf(cause.Field, "spec.ports[%d]", &at)
		_, known := ports[at]
		switch isPort := n == 1 && err == nil; {
		case isPort && !known:
			ports[at] = r
		case !isPort && len(all) == 0:
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		return all // Perhaps the faults of the ports come from it. If not, they come again.
	}
	for _, at := range slices.Backward(slices.Sorted(maps.Keys(ports))) {
		all = append(all, ports[at])
	}
	return all
}

// Target returns the name under which a plan knows what was refused.
func (o Outcome) Target() observed.Target {
	switch o.Object.(type) {
	case *corev1.Service:
		return observed.Target{Kind: observed.Service, Name: o.Object.GetName()}
	case *discoveryv1.EndpointSlice:
		return observed.Target{Kind: observed.Slice, Name: o.Object.GetName()}
	default:
		return observed.Target{Kind: observed.Import}
	}
}
