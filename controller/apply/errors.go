package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/contested"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

var (
	// ErrStale: the plan was made from objects that have changed since.
	ErrStale = errors.New("the objects have changed since they were read")
	// errNotOurs guards against a plan that would write what it may not; it is never expected.
	errNotOurs = errors.New("not an object that this controller made")
	// errOtherType: kube-proxy has a memory for each family, and a name is free for an empty slice of one only.
	errOtherType = errors.New("an EndpointSlice of the other address type has that name: delete it")
	// errNoEffect: the API server took a write, and nothing changed.
	errNoEffect = errors.New("the API server or a webhook has undone the change")
	// errForeignSlice: somebody has a slice of the name that one of ours has to have.
	errForeignSlice = errors.New("an EndpointSlice of this name exists and is not this controller's: delete it")
)

// ImportRefusedError is an import of ours that the API server does not take.
type ImportRefusedError struct{ cause error }

func (e *ImportRefusedError) Error() string { return e.cause.Error() }

func (e *ImportRefusedError) Unwrap() error { return e.cause }

// SlicesRefusedError are the slices of ours that the API server does not take, by name, each with the reason.
type SlicesRefusedError map[string]string

func (e SlicesRefusedError) Error() string {
	return fmt.Sprintf("%d EndpointSlices were refused: %s", len(e), slices.Sorted(maps.Values(e))[0])
}

// RefusedError is a derived Service that the API server does not take.
type RefusedError struct {
	observed.Refusal
	cause error
}

func (e *RefusedError) Error() string { return e.cause.Error() }

func (e *RefusedError) Unwrap() error { return e.cause }

// NoEffectError is a write that the API server took and that changed nothing: a field that it does not know, or that a webhook sets.
type NoEffectError struct{ Fields contested.Fields }

func (e *NoEffectError) Error() string {
	return fmt.Sprintf("a write of %d fields had no effect", len(e.Fields))
}

// EvictionError says that all has been written, and that a slice that has to go is still there.
type EvictionError struct{ error }

// Unwrap returns the cause: ErrStale, or the API server's error.
func (e *EvictionError) Unwrap() error { return e.error }

// hadEffect gives the error of a patch, or a NoEffectError where the server has taken the patch and left the object as it was.
func hadEffect(err error, old, answer client.Object, fields contested.Fields) error {
	if err == nil && answer.GetResourceVersion() == old.GetResourceVersion() && len(fields) > 0 {
		return &NoEffectError{fields}
	}
	return err
}

// wrap adds what was written, and marks the errors that mean that the plan was made from a stale object.
func wrap(err error, verb string, obj client.Object) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s %s/%s: %w: %w", verb, obj.GetNamespace(), obj.GetName(), ErrStale, err)
	default:
		return fmt.Errorf("%s %s/%s: %w", verb, obj.GetNamespace(), obj.GetName(), err)
	}
}

func importRefused(err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return &ImportRefusedError{err}
	}
	return err
}

// refused tells a derived Service that the server does not take from a server that does not work.
func refused(err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	r := observed.Refusal{Message: status.Status().Message}
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		first := details.Causes[0]
		r = observed.Refusal{Field: first.Field, Message: first.Message}
	}
	return &RefusedError{r, err}
}
