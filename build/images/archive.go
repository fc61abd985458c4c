package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// archive is the content of a file, by path in it.
type archive struct {
	files map[string][]byte
	top   v1.Hash // of the image or, for more than one architecture, of their index
}

// containerdName is the annotation that contains the name under which containerd imports an image.
const containerdName = "io.containerd.image.name"

// loaded is an entry of manifest.json, which `docker load` reads.
type loaded struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// newArchive holds the images, the variants of one for different architectures, under each of the references.
func newArchive(references []string, variants []v1.Image) (archive, error) {
	a := archive{files: map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	entries := make([]loaded, 0, len(variants))
	for _, img := range variants {
		entry, err := a.addImage(img)
		if err != nil {
			return a, err
		}
		entries = append(entries, entry)
	}
	top, err := a.addTop(variants)
	if err != nil {
		return a, err
	}
	a.top = top.Digest
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	name := func(annotations map[string]string) {
		named := top
		named.Annotations = annotations
		index.Manifests = append(index.Manifests, named)
	}
	for _, reference := range references {
		name(map[string]string{containerdName: reference, "org.opencontainers.image.ref.name": reference[strings.LastIndex(reference, ":")+1:]})
	}
	// The chart of a release has the digest. A kubelet finds an imported image by it only under this name.
	repository := references[0][:strings.LastIndex(references[0], ":")]
	name(map[string]string{containerdName: repository + "@" + top.Digest.String()})
	entries[0].RepoTags = references
	return a, errors.Join(a.addJSON("index.json", index), a.addJSON("manifest.json", entries[:1]))
}

// addImage adds all blobs of an image.
func (a archive) addImage(img v1.Image) (loaded, error) {
	var entry loaded
	layers, err := img.Layers()
	if err != nil {
		return entry, err
	}
	for _, layer := range layers {
		compressed, err := layer.Compressed()
		if err != nil {
			return entry, err
		}
		content, err := io.ReadAll(compressed)
		if err := errors.Join(err, compressed.Close()); err != nil {
			return entry, err
		}
		digest, err := layer.Digest()
		if err != nil {
			return entry, err
		}
		entry.Layers = append(entry.Layers, a.addBlob(digest, content))
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return entry, err
	}
	configName, err := img.ConfigName()
	if err != nil {
		return entry, err
	}
	entry.Config = a.addBlob(configName, config)
	manifest, err := img.RawManifest()
	if err != nil {
		return entry, err
	}
	digest, err := img.Digest()
	a.addBlob(digest, manifest)
	return entry, err
}

// addTop adds the index of more than one architecture, and describes what the archive's names are for.
func (a archive) addTop(variants []v1.Image) (v1.Descriptor, error) {
	if len(variants) == 1 {
		return describeImage(variants[0])
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, img := range variants {
		descriptor, err := describeImage(img)
		if err != nil {
			return descriptor, err
		}
		index.Manifests = append(index.Manifests, descriptor)
	}
	content, err := json.Marshal(index)
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	a.addBlob(digest, content)
	return v1.Descriptor{MediaType: index.MediaType, Digest: digest, Size: size}, err
}

// describeImage also names the platform: containerd skips what another one is for without reading it.
func describeImage(img v1.Image) (v1.Descriptor, error) {
	mediaType, err := img.MediaType()
	digest, derr := img.Digest()
	size, serr := img.Size()
	config, cerr := img.ConfigFile()
	if err := errors.Join(err, derr, serr, cerr); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: mediaType, Digest: digest, Size: size, Platform: config.Platform()}, nil
}

func (a archive) addBlob(digest v1.Hash, content []byte) (path string) {
	path = "blobs/" + digest.Algorithm + "/" + digest.Hex
	a.files[path] = content
	return path
}

func (a archive) addJSON(path string, value any) error {
	content, err := json.Marshal(value)
	a.files[path] = content
	return err
}

// write makes the file, complete or not at all. Its entries are sorted and have no time, so that the same images give the same bytes.
func (a archive) write(path string) error {
	file, err := os.Create(path + ".part") //nolint:gosec // where the caller wants it
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	add := func(header tar.Header, content []byte) error {
		header.ModTime = time.Unix(0, 0)
		err := w.WriteHeader(&header)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	for _, folder := range []string{"blobs/", "blobs/sha256/"} {
		err = errors.Join(err, add(tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755}, nil))
	}
	for _, name := range slices.Sorted(maps.Keys(a.files)) {
		content := a.files[name]
		err = errors.Join(err, add(tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}, content))
	}
	if err := errors.Join(err, w.Close(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}

// describe writes a line for each architecture, and one for the index of more than one.
func (a archive) describe(to io.Writer, reference string, variants []v1.Image) error {
	for _, img := range variants {
		manifest, err := img.Manifest()
		if err != nil {
			return err
		}
		descriptor, err := describeImage(img)
		if err != nil {
			return err
		}
		size := manifest.Config.Size
		for _, layer := range manifest.Layers {
			size += layer.Size
		}
		if _, err := fmt.Fprintf(to, "%s\t%s\t%.1f MB\t%s\n", reference, descriptor.Platform.Architecture, float64(size)/1e6, descriptor.Digest); err != nil {
			return err
		}
	}
	if len(variants) == 1 {
		return nil
	}
	_, err := fmt.Fprintf(to, "%s\tindex\t\t%s\n", reference, a.top)
	return err
}
