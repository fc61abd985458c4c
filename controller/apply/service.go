package apply

import (
	"context"
	"slices"

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
		w.note(Created, made, wrap(w.create(ctx, made), "create", made))
	}
	if c.Create != nil {
		made := c.Create.DeepCopy()
		err := w.isCurrent(ctx, st)
		if err == nil {
			err = w.create(ctx, made)
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
		w.must(Changed, edit.New, wrap(errNotOurs, "patch", edit.Old))
	default:
		w.note(Changed, edit.New, patch(ctx, edit.Old, edit.New))
	}
}

// slicesAndImport writes the controller's slices before the addresses, so that a name that resolves
// has endpoints. A slice that cannot be written does not delay the addresses.
func (w *Writer) slicesAndImport(ctx context.Context, st observed.State, c diff.Changes) {
	w.importedSlices(ctx, st, c)
	switch {
	case c.Import != nil:
		w.note(Changed, c.Import.New, w.patch(ctx, c.Import.Old, c.Import.New))
	case c.ImportStatus != nil:
		w.must(Changed, c.ImportStatus.New, w.patchStatus(ctx, c.ImportStatus.Old, c.ImportStatus.New))
	}
}

func (w *Writer) exportStatus(ctx context.Context, _ observed.State, c diff.Changes) {
	if c.ExportStatus != nil {
		w.must(Changed, c.ExportStatus.New, w.patchStatus(ctx, c.ExportStatus.Old, c.ExportStatus.New))
	}
}

// deletions deletes Services and imports, if everything before was written: others take their place.
func (w *Writer) deletions(ctx context.Context, st observed.State, c diff.Changes) {
	for _, svc := range c.Delete {
		w.delete(ctx, svc, slices.Contains(ownership.OwnerImports(svc), st.Name) || st.Import != nil && ownership.Derived(st.Import, svc))
	}
	if svc := c.Native.Delete; svc != nil {
		w.delete(ctx, svc, ownership.NativeService(svc))
	}
	if imp := c.DeleteImport; imp != nil {
		w.delete(ctx, imp, ownership.OfImport(imp))
	}
}

// delete deletes only the object of the plan: what was created under the same name in the meantime stays.
func (w *Writer) delete(ctx context.Context, object client.Object, ours bool) {
	switch {
	case !w.outcomes.made():
	case !ours:
		w.must(Deleted, object, wrap(errNotOurs, "delete", object))
	default:
		w.must(Deleted, object, wrap(w.Client.Delete(ctx, object, exactly(object)), "delete", object))
	}
}
