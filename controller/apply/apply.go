// Package apply is the controller's only writer. It makes the writes of a plan in the order of plan.Changes, and stops at the
// first that fails: what comes later may rest on what came before.
//
// Each write carries the resourceVersion that the plan was made from, and only what differs from it: a merge patch. So fields
// that our types do not know survive, and a write that lost a race is refused with a conflict. It is then not tried again here:
// ErrStale tells the caller to read and plan anew.
package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/plan"
)

var (
	// ErrStale: the plan was made from objects that have changed since.
	ErrStale = errors.New("the objects have changed since they were read")
	// errNotOurs guards against a plan that would write what it may not; it is never expected.
	errNotOurs = errors.New("not a Service that this controller made for the import")
)

// RefusedError is a derived Service that the API server does not take.
type RefusedError struct {
	plan.Refusal
	cause error
}

func (e *RefusedError) Error() string { return e.cause.Error() }
func (e *RefusedError) Unwrap() error { return e.cause }

// Writer writes with Client. Live reads from the API server itself.
type Writer struct {
	Client client.Writer
	Status client.StatusClient
	Live   client.Reader
	Events events.EventRecorder
}

// Do makes the writes and tells the events.
func (w *Writer) Do(ctx context.Context, imp *mcsv1beta1.ServiceImport, c plan.Changes) error {
	for _, write := range []func(context.Context, *mcsv1beta1.ServiceImport, plan.Changes) error{
		w.create, w.service, w.importAndStatus, w.slices, w.delete,
	} {
		if err := write(ctx, imp, c); err != nil {
			return err
		}
	}
	for _, e := range c.Events {
		w.Events.Eventf(imp, nil, e.Type, e.Reason, "Reconcile", "%s", e.Message)
	}
	return nil
}

// create first asks the API server whether the import is still what the plan saw: a cache that lags behind by the annotation
// with the former addresses would give the import another one (C24), and nothing would refuse the create.
func (w *Writer) create(ctx context.Context, imp *mcsv1beta1.ServiceImport, c plan.Changes) error {
	if c.Create == nil {
		return nil
	}
	live := new(mcsv1beta1.ServiceImport)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(imp), live); err != nil {
		return wrap(err, "read import of", c.Create)
	}
	if live.ResourceVersion != imp.ResourceVersion {
		return fmt.Errorf("create Service %s: %w", c.Create.Name, ErrStale)
	}
	return refused(wrap(w.Client.Create(ctx, c.Create.DeepCopy()), "create", c.Create))
}

func (w *Writer) service(ctx context.Context, imp *mcsv1beta1.ServiceImport, c plan.Changes) error {
	switch {
	case c.Service != nil:
		if !ours(imp, c.Service.Old) {
			return fmt.Errorf("patch Service %s: %w", c.Service.Old.Name, errNotOurs)
		}
		return refused(patch(ctx, w.Client, c.Service.Old, c.Service.New))
	case c.ServiceStatus != nil:
		if !ours(imp, c.ServiceStatus.Old) {
			return fmt.Errorf("patch the status of Service %s: %w", c.ServiceStatus.Old.Name, errNotOurs)
		}
		return refused(patchStatus(ctx, w.Status, c.ServiceStatus.Old, c.ServiceStatus.New))
	default:
		return nil
	}
}

func (w *Writer) importAndStatus(ctx context.Context, _ *mcsv1beta1.ServiceImport, c plan.Changes) error {
	switch {
	case c.Import != nil:
		return patch(ctx, w.Client, c.Import.Old, c.Import.New)
	case c.ImportStatus != nil:
		return patchStatus(ctx, w.Status, c.ImportStatus.Old, c.ImportStatus.New)
	default:
		return nil
	}
}

// slices are many and independent: one that fails does not hold up the others.
func (w *Writer) slices(ctx context.Context, _ *mcsv1beta1.ServiceImport, c plan.Changes) error {
	var failed []error
	for _, edit := range c.Slices {
		failed = append(failed, patch(ctx, w.Client, edit.Old, edit.New))
	}
	return errors.Join(failed...)
}

// delete names the very object that was planned: one made meanwhile under its name stays.
func (w *Writer) delete(ctx context.Context, imp *mcsv1beta1.ServiceImport, c plan.Changes) error {
	for _, svc := range c.Delete {
		if !ours(imp, svc) {
			return fmt.Errorf("delete Service %s: %w", svc.Name, errNotOurs)
		}
		err := w.Client.Delete(ctx, svc, client.Preconditions{UID: &svc.UID, ResourceVersion: &svc.ResourceVersion})
		if err != nil {
			return wrap(err, "delete", svc)
		}
	}
	return nil
}

func ours(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	return svc.Namespace == imp.Namespace && slices.Contains(plan.OwnerImports(svc), imp.Name)
}

func patch[T client.Object](ctx context.Context, c client.Writer, old, edited T) error {
	return wrap(c.Patch(ctx, edited, difference(old)), "patch", old)
}

func patchStatus[T client.Object](ctx context.Context, c client.StatusClient, old, edited T) error {
	return wrap(c.Status().Patch(ctx, edited, difference(old)), "patch the status of", old)
}

func difference(old client.Object) client.Patch {
	return client.MergeFromWithOptions(old, client.MergeFromWithOptimisticLock{})
}

// wrap says what was written, and which errors mean that the plan was made from a stale object.
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

// refused tells a derived Service that the server does not take from a server that does not work.
func refused(err error) error {
	if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		return err
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	r := plan.Refusal{Message: status.Status().Message}
	if details := status.Status().Details; details != nil && len(details.Causes) > 0 {
		first := details.Causes[0]
		r = plan.Refusal{Field: first.Field, Message: first.Message}
	}
	return &RefusedError{r, err}
}
