package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// testArchive writes the archive of a program in a few bytes for each architecture.
func testArchive(t *testing.T, architectures ...string) (path string, variants []v1.Image) {
	t.Helper()
	p := programs("v0.0.0")[0]
	for _, architecture := range architectures {
		variants = append(variants, testImage(t, p, architecture))
	}
	a, err := newArchive(p.references(testRelease), variants)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "archive.tar")
	if err := a.write(path); err != nil {
		t.Fatal(err)
	}
	return path, variants
}

func TestArchiveAsLayout(t *testing.T) {
	for _, architectures := range [][]string{{"amd64"}, {"arm64", "amd64"}} {
		path, _ := testArchive(t, architectures...)
		index, err := layout.ImageIndexFromPath(extract(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Error(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, descriptor := range manifest.Manifests {
			names = append(names, descriptor.Annotations["io.containerd.image.name"], descriptor.Annotations["org.opencontainers.image.ref.name"])
			if descriptor.Digest != manifest.Manifests[0].Digest {
				t.Errorf("%s is another image than %s", descriptor.Annotations, manifest.Manifests[0].Annotations)
			}
		}
		const repository = "registry.invalid/clusterset-dns/coredns"
		want := []string{repository + ":v1.2.3", "v1.2.3", repository + ":latest", "latest", repository + "@" + manifest.Manifests[0].Digest.String(), ""}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("names, -want +got\n%s", diff)
		}
		if got := architecturesOf(t, index, manifest.Manifests[0]); !slices.Equal(got, architectures) {
			t.Errorf("the archive is for %v, want %v", got, architectures)
		}
	}
}

// architecturesOf are those of the image or the index below another index.
func architecturesOf(t *testing.T, index v1.ImageIndex, top v1.Descriptor) []string {
	t.Helper()
	if top.MediaType.IsImage() {
		return []string{top.Platform.Architecture}
	}
	child, err := index.ImageIndex(top.Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := child.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var architectures []string
	for _, descriptor := range manifest.Manifests {
		architectures = append(architectures, descriptor.Platform.Architecture)
		if descriptor.ArtifactType != "" {
			t.Errorf("an image is described as another artifact, %s", descriptor.ArtifactType)
		}
	}
	return architectures
}

// TestArchiveForDocker reads the archive as one of Docker's: its first architecture, by each of the names.
func TestArchiveForDocker(t *testing.T) {
	path, variants := testArchive(t, "arm64", "amd64")
	want, err := variants[0].ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"registry.invalid/clusterset-dns/coredns:v1.2.3", "registry.invalid/clusterset-dns/coredns:latest"} {
		tag, err := name.NewTag(reference)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(path, &tag)
		if err != nil {
			t.Fatalf("%s: %v", reference, err)
		}
		if err := validate.Image(img); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		if got, err := img.ConfigName(); got != want || err != nil {
			t.Errorf("%s is %s (%v), want %s", reference, got, err, want)
		}
	}
}

// extract unpacks an archive into a folder, and checks that its entries are sorted.
func extract(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	folder := t.TempDir()
	var names []string
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			err = os.Mkdir(to, 0o700)
		} else {
			names = append(names, header.Name)
			content, rerr := io.ReadAll(r)
			err = errors.Join(rerr, os.WriteFile(to, content, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("entries are not sorted: %q", names)
	}
	return folder
}
