package gather

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// write writes the archive under another name first: the file is complete, or it is not there.
func (b *bundle) write(ctx context.Context, o Options) (size int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(o.File), ".multicluster-gather-*") // with the mode 0600
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", output.Clean(o.File), err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // It has another name if all went well.
	err = b.pack(ctx, file, strings.TrimSuffix(filepath.Base(o.File), ".tar.gz"), o)
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Sync(), file.Close()); err != nil {
		return 0, fmt.Errorf("write %s: %w", output.Clean(o.File), err)
	}
	if err := mayWrite(o); err != nil { // Somebody else can have created it since.
		return 0, err
	}
	if err := os.Rename(file.Name(), o.File); err != nil {
		return 0, fmt.Errorf("write %s: %w", output.Clean(o.File), err)
	}
	return info.Size(), nil
}

// pack writes the files in one folder, the summary first.
func (b *bundle) pack(ctx context.Context, w io.Writer, folder string, o Options) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	names := slices.Sorted(maps.Keys(b.files))
	slices.SortStableFunc(names, func(x, y string) int { return depth(x) - depth(y) })
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		text := b.files[name]
		header := &tar.Header{Name: path.Join(folder, name), Mode: 0o600, Size: int64(len(text)), ModTime: o.Now(), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func depth(name string) int {
	if name == "summary.md" {
		return -1
	}
	return strings.Count(name, "/")
}
