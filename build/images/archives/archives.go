// Package archives reads what `make images` wrote: an archive of an OCI layout for each program.
package archives

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Programs are the names of the images, which are the names of the archives too.
var Programs = []string{"coredns", "multicluster-controller"}

// Archive is an image, or the index of an image for several architectures.
type Archive struct {
	Digest v1.Hash
	// Images are those of the architectures, in the order of the index.
	Images []v1.Image
	// Content is the image or the index, to push.
	Content remote.Taggable
}

// Open reads an archive. Its content is read from the scratch folder, which has to stay as long as the archive is used.
func Open(path, scratch string) (Archive, error) {
	a, err := open(path, scratch)
	if err != nil {
		return a, fmt.Errorf("read the archive %s (`make images` makes it): %w", path, err)
	}
	return a, nil
}

func open(path, scratch string) (Archive, error) {
	folder, err := os.MkdirTemp(scratch, filepath.Base(path))
	if err != nil {
		return Archive{}, err
	}
	if err := extract(path, folder); err != nil {
		return Archive{}, err
	}
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return Archive{}, err
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return Archive{}, err
	}
	if len(manifest.Manifests) == 0 {
		return Archive{}, errors.New("its index.json has no image")
	}
	top := manifest.Manifests[0] // the others are more names of the same
	if top.MediaType.IsIndex() {
		index, err := all.ImageIndex(top.Digest)
		if err != nil {
			return Archive{}, err
		}
		images, err := imagesOf(index)
		return Archive{Digest: top.Digest, Images: images, Content: index}, err
	}
	img, err := all.Image(top.Digest)
	return Archive{Digest: top.Digest, Images: []v1.Image{img}, Content: img}, err
}

func imagesOf(index v1.ImageIndex) ([]v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	images := make([]v1.Image, 0, len(manifest.Manifests))
	for _, descriptor := range manifest.Manifests {
		img, err := index.Image(descriptor.Digest)
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return images, nil
}

// extract writes the files of an archive below a folder, and refuses paths that lead out of it.
func extract(path, folder string) error {
	file, err := os.Open(path) //nolint:gosec // the archive that the caller names
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(root, header.Name, r); err != nil {
			return err
		}
	}
}

func writeFile(root *os.Root, name string, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	file, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
