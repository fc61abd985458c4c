package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// create first asks the API server whether the import is still the import of the plan, unless the API
// server has just answered with it. A stale cache can miss the annotation with the former addresses. The import would then get another
// address (C24), and the API server would not refuse the create.
func (w *Writer) create(ctx context.Context, st observed.State, c diff.Changes) error {
	if c.Create == nil {
		return nil
	}
	if err := w.isCurrent(ctx, st); err != nil {
		return wrap(err, "create", c.Create)
	}
	return refused(wrap(w.createObject(ctx, c.Create.DeepCopy()), "create", c.Create))
}

// isCurrent returns ErrStale if the import is not the one that the API server has.
func (w *Writer) isCurrent(ctx context.Context, st observed.State) error {
	if st.Answered {
		return nil
	}
	live := new(mcsv1beta1.ServiceImport)
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(st.Import), live); err != nil {
		return wrap(err, "read", st.Import)
	}
	if live.ResourceVersion != st.Import.ResourceVersion {
		return ErrStale
	}
	return nil
}

func (w *Writer) service(ctx context.Context, st observed.State, c diff.Changes) error {
	imp := st.Import
	switch {
	case c.Service != nil:
		if !ours(imp, c.Service.Old) {
			return fmt.Errorf("patch Service %s: %w", c.Service.Old.Name, errNotOurs)
		}
		err := w.patch(ctx, c.Service.Old, c.Service.New)
		if errors.Is(err, errNoEffect) {
			return &RefusedError{[]observed.Refusal{{Message: errNoEffect.Error()}}, err}
		}
		return refused(err)
	case c.ServiceStatus != nil:
		if !ours(imp, c.ServiceStatus.Old) {
			return fmt.Errorf("patch the status of Service %s: %w", c.ServiceStatus.Old.Name, errNotOurs)
		}
		return refused(w.patchStatus(ctx, c.ServiceStatus.Old, c.ServiceStatus.New))
	default:
		return nil
	}
}

// delete deletes only the object of the plan: a Service that was created under the same name in the
// meantime stays.
func (w *Writer) delete(ctx context.Context, st observed.State, c diff.Changes) error {
	for _, svc := range c.Delete {
		if !slices.Contains(ownership.OwnerImports(svc), st.Name) && (st.Import == nil || !ours(st.Import, svc)) {
			return fmt.Errorf("delete Service %s: %w", svc.Name, errNotOurs)
		}
		if err := wrap(w.Client.Delete(ctx, svc, exactly(svc)), "delete", svc); err != nil {
			return err
		}
	}
	return nil
}

func ours(imp *mcsv1beta1.ServiceImport, svc *corev1.Service) bool {
	return ownership.Derived(imp, svc)
}
