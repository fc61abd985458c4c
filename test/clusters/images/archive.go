package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// image is what an archive says of the folder in it.
type image struct {
	name       string
	entrypoint []string
}

// left out of images: what only a machine that installs packages needs, and devices, which a container runtime makes.
var left = []string{"./dev/*", "./var/cache/apt/*", "./var/lib/apt/lists/*", "./usr/share/doc/*", "./usr/share/man/*", "./usr/share/locale/*"}

// write makes an archive of one layer, everything below root, of Docker's format. The layer is not compressed: it is read often,
// and goes nowhere.
func (i image) write(ctx context.Context, archive, root string) error {
	const layerName, configName, manifestName = "layer.tar", "config.json", "manifest.json"
	layer := filepath.Join(filepath.Dir(archive), layerName)
	args := []string{"--create", "--file=" + layer, "--numeric-owner", "--directory=" + root}
	for _, path := range left {
		args = append(args, "--exclude="+path)
	}
	if err := run(ctx, "tar", append(args, ".")...); err != nil {
		return err
	}
	sum, err := sumOf(layer)
	if err != nil {
		return err
	}
	config, err := json.Marshal(i.config(sum))
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]any{map[string]any{"Config": configName, "RepoTags": []string{i.name}, "Layers": []string{layerName}}})
	if err != nil {
		return err
	}
	return writeTar(archive, []entry{{manifestName, manifest}, {configName, config}}, layer)
}

// config is OCI's image configuration.
func (i image) config(layerSum string) any {
	return map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": map[string]any{
			"Entrypoint": i.entrypoint,
			"Env":        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerSum}},
	}
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

type entry struct {
	name string
	text []byte
}

// writeTar makes an archive of small entries and one big file.
func writeTar(path string, entries []entry, big string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	for _, e := range entries {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text))}))
		if err == nil {
			_, err = w.Write(e.text)
		}
	}
	return errors.Join(err, addFile(w, big), w.Close(), file.Close())
}

func addFile(w *tar.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: filepath.Base(path), Mode: 0o644, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
