package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

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
	// ErrHeld means that the API server accepted a write and nothing changed: it does not know the fields, or
	// a webhook sets them. They are held from now on.
	ErrHeld = errors.New("a write had no effect")
	// errNoEffect means the same of a write that is never held.
	errNoEffect = errors.New("the API server or a webhook has undone the change")
	// errForeignSlice means that a slice of another owner has the name that a slice of the
	// controller needs.
	errForeignSlice = errors.New("an EndpointSlice of this name exists and the controller does not own it: delete it")
)

// ImportRefusedError is the API server's refusal of a ServiceImport that the controller owns.
type ImportRefusedError struct{ cause error }

func (e *ImportRefusedError) Error() string { return e.cause.Error() }

func (e *ImportRefusedError) Unwrap() error { return e.cause }

// SlicesRefusedError maps the name of each EndpointSlice that the API server refuses to the reason.
// The controller owns these slices.
type SlicesRefusedError map[string]string

func (e SlicesRefusedError) Error() string {
	return fmt.Sprintf("%d EndpointSlices were refused: %s", len(e), slices.Sorted(maps.Values(e))[0])
}

// RefusedError is the API server's refusal of a derived Service. It has one Refusal for each fault that the API server
// named, those of later ports first, so that each of them can be left out in turn.
type RefusedError struct {
	Refusals []observed.Refusal
	cause    error
}

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// EvictionError means that all writes were made except that an unexpected slice could not be
// deleted, or a leak could not be repaired.
type EvictionError struct{ error }

// Unwrap returns the cause: ErrStale, or the API server's error.
func (e *EvictionError) Unwrap() error { return e.error }

// wrap adds the verb and the object to an error, and marks the errors which mean that the plan was
// made from a stale object.
func wrap(err error, verb string, obj client.Object) error {
	switch {
	case err == nil:
		return nil
	case (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)) && !denied(err.Error()):
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

func importRefused(err error) error {
	if isRefusal(err) {
		return &ImportRefusedError{err}
	}
	return err
}

// refused converts an error to a RefusedError if the API server refuses the derived Service. Other
// errors, such as those of an API server that does not work, are returned unchanged.
func refused(err error) error {
	if !isRefusal(err) {
		return err
	}
	status, all := apiStatus(err).Status(), []observed.Refusal(nil)
	switch details := status.Details; {
	case strings.Contains(status.Message, "failed to allocate a serviceIP") && strings.Contains(status.Message, "range is full"):
		// As the API server says it: kubernetes pkg/registry/core/service/storage/alloc.go.
		all = []observed.Refusal{{Field: "spec.clusterIPs", Message: status.Message}}
	case details != nil && len(details.Causes) > 0:
		all = refusalsOf(details.Causes)
	default:
		all = []observed.Refusal{{Message: status.Message}}
	}
	return &RefusedError{all, err}
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
