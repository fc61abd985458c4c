package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArchiveContainsItsFolder makes the pause image, for which no root is needed, twice.
func TestArchiveContainsItsFolder(t *testing.T) {
	var progress bytes.Buffer
	m := maker{dir: t.TempDir(), progress: &progress}
	archive, err := m.ensure(t.Context(), "pause", m.pause, "now")
	if err != nil {
		t.Fatal(err)
	}
	checkArchive(t, archive)

	never := func(context.Context, string) (image, error) {
		t.Error("made again, though nothing changed")
		return image{}, nil
	}
	if again, err := m.ensure(t.Context(), "pause", never, "now"); err != nil || again != archive {
		t.Errorf("%s, %v; want %s", again, err, archive)
	}
	if _, err := m.ensure(t.Context(), "pause", m.pause, "later"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(m.dir, "*"))
	if err != nil || len(left) != 1 || left[0] == archive {
		t.Errorf("%v, %v: want the later archive alone", left, err)
	}
}

func TestNothingIsLeftOfAnImageThatFails(t *testing.T) {
	m := maker{dir: t.TempDir()}
	wrong := func(ctx context.Context, root string) (image, error) {
		return image{}, goBuild(ctx, []byte("package main\n\nfunc main() { nonsense() }\n"), filepath.Join(root, "wrong"))
	}
	if _, err := m.ensure(t.Context(), "wrong", wrong); err == nil || !bytes.Contains([]byte(err.Error()), []byte("undefined: nonsense")) {
		t.Errorf("%v; want the compiler's words", err)
	}
	if left, err := os.ReadDir(m.dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestImageOfProgram: a program as it is, alone, and what a container of the image starts.
func TestImageOfProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "archive.tar")
	if err := OfProgram(t.Context(), archive, "example.org/program:1", program); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	entries := readTar(t, file)
	name := filepath.Base(program)
	if want := `"Entrypoint":["/` + name + `"]`; !strings.Contains(string(entries["config.json"]), want) {
		t.Errorf("configuration %s; want %s in it", entries["config.json"], want)
	}
	if want := `"RepoTags":["example.org/program:1"]`; !strings.Contains(string(entries["manifest.json"]), want) {
		t.Errorf("manifest %s; want %s in it", entries["manifest.json"], want)
	}
	want, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if got := readTar(t, bytes.NewReader(entries["layer.tar"]))["./"+name]; !bytes.Equal(got, want) {
		t.Errorf("the layer has %d bytes of the program, want its %d", len(got), len(want))
	}
}

// checkArchive reads it as a container runtime does: by its manifest, and the layer's sum in the configuration.
func checkArchive(t *testing.T, archive string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	entries := readTar(t, file)
	want := `[{"Config":"config.json","Layers":["layer.tar"],"RepoTags":["` + Pause + `"]}]`
	if got := string(entries["manifest.json"]); got != want {
		t.Errorf("manifest %s; want %s", got, want)
	}
	config := string(entries["config.json"])
	for _, want := range []string{fmt.Sprintf(`"sha256:%x"`, sha256.Sum256(entries["layer.tar"])), `"Entrypoint":["/pause"]`, `"os":"linux"`} {
		if !strings.Contains(config, want) {
			t.Errorf("configuration %s; want %s in it", config, want)
		}
	}
	layer := readTar(t, bytes.NewReader(entries["layer.tar"]))
	if program := layer["./pause"]; len(program) < 4 || !slices.Equal(program[:4], []byte("\x7fELF")) {
		t.Error("the layer has no program")
	}
}

func readTar(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	entries := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		if entries[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
