package apply

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// creations creates the import, or its derived Service. For the Service it first asks the API server whether
// the import is still the import of the plan, unless the API server has just answered with it. A stale cache
// can miss the annotation with the former addresses. The import would then get another address (C24), and the
// API server would not refuse the create.
func (w *Writer) creations(ctx context.Context, st observed.State, c diff.Changes) {
	if c.CreateImport != nil {
		made := c.CreateImport.DeepCopy()
		w.note(Created, made, wrap(w.Client.Create(ctx, made), "create", made))
	}
	if c.Create != nil {
		made := c.Create.DeepCopy()
		err := w.isCurrent(ctx, st)
		if err == nil {
			err = w.Client.Create(ctx, made)
		}
		w.note(Created, made, wrap(err, "create", made))
	}
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

// service edits the derived Service, or its status.
func (w *Writer) service(ctx context.Context, st observed.State, c diff.Changes) {
	edit, patch := c.Service, w.patch
	if edit == nil {
		edit, patch = c.ServiceStatus, w.patchStatus
	}
	switch {
	case edit == nil:
	case !ownership.Derived(st.Import, edit.Old):
		w.must(Changed, edit.New, fmt.Errorf("patch Service %s: %w", edit.Old.Name, errNotOurs))
	default:
		w.note(Changed, edit.New, patch(ctx, edit.Old, edit.New))
	}
}

func (w *Writer) deleteService(ctx context.Context, st observed.State, svc *corev1.Service) error {
	if !slices.Contains(ownership.OwnerImports(svc), st.Name) && (st.Import == nil || !ownership.Derived(st.Import, svc)) {
		return fmt.Errorf("delete Service %s: %w", svc.Name, errNotOurs)
	}
	return wrap(w.Client.Delete(ctx, svc, exactly(svc)), "delete", svc)
}
