package apply

import (
	"context"
	"fmt"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

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

// deletions deletes only the objects of the plan: what was created under the same name in the meantime
// stays.
func (w *Writer) deletions(ctx context.Context, st observed.State, c diff.Changes) {
	for _, svc := range c.Delete {
		if w.outcomes.made() {
			w.must(Deleted, svc, w.deleteService(ctx, st, svc))
		}
	}
	if svc := c.Native.Delete; svc != nil && w.outcomes.made() {
		err := fmt.Errorf("delete Service %s: %w", svc.Name, errNotOurs)
		if ownership.NativeService(svc) {
			err = wrap(w.Client.Delete(ctx, svc, exactly(svc)), "delete", svc)
		}
		w.must(Deleted, svc, err)
	}
	if imp := c.DeleteImport; imp != nil && w.outcomes.made() {
		err := fmt.Errorf("delete ServiceImport %s: %w", imp.Name, errNotOurs)
		if ownership.OfImport(imp) {
			err = wrap(w.Client.Delete(ctx, imp, exactly(imp)), "delete", imp)
		}
		w.must(Deleted, imp, err)
	}
}
