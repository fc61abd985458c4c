package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/clusterset-dns/multicluster/controller/diff"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

func (w *Writer) createImport(ctx context.Context, _ observed.State, c diff.Changes) error {
	if c.CreateImport == nil {
		return nil
	}
	return importRefused(wrap(w.createObject(ctx, c.CreateImport.DeepCopy()), "create", c.CreateImport))
}

// deleteImport deletes only the object of the plan, as delete does.
func (w *Writer) deleteImport(ctx context.Context, _ observed.State, c diff.Changes) error {
	if c.DeleteImport == nil {
		return nil
	}
	if !ownership.OfImport(c.DeleteImport) {
		return fmt.Errorf("delete ServiceImport %s: %w", c.DeleteImport.Name, errNotOurs)
	}
	return wrap(w.Client.Delete(ctx, c.DeleteImport, exactly(c.DeleteImport)), "delete", c.DeleteImport)
}

// slicesAndImport writes the controller's slices before the addresses, so that a name that resolves
// has endpoints. A slice that cannot be written does not delay the addresses.
func (w *Writer) slicesAndImport(ctx context.Context, st observed.State, c diff.Changes) error {
	err := w.importedSlices(ctx, st, c)
	if errors.As(err, new(SlicesRefusedError)) {
		return err // The next plan leaves the refused slices out.
	}
	return errors.Join(err, w.importAndStatus(ctx, c))
}

func (w *Writer) exportStatus(ctx context.Context, _ observed.State, c diff.Changes) error {
	if c.ExportStatus == nil {
		return nil
	}
	return w.patchStatus(ctx, c.ExportStatus.Old, c.ExportStatus.New)
}

func (w *Writer) importAndStatus(ctx context.Context, c diff.Changes) error {
	switch {
	case c.Import != nil:
		return importRefused(w.patch(ctx, c.Import.Old, c.Import.New))
	case c.ImportStatus != nil:
		return w.patchStatus(ctx, c.ImportStatus.Old, c.ImportStatus.New)
	default:
		return nil
	}
}
