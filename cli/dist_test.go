package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestDist makes the archive of this system as a release does, and installs it as krew does.
func TestDist(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds an archive with GNU tar: not with -short")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	system := runtime.GOOS + "/" + runtime.GOARCH
	cmd := exec.CommandContext(t.Context(), "../build/cli-dist.sh", dist)
	cmd.Env = append(os.Environ(), "VERSION=v1.2.3", "SYSTEMS="+system)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	// The fields of krew's manifest that an installation reads.
	var manifest struct {
		Spec struct {
			Version   string `json:"version"`
			Platforms []struct {
				Selector struct {
					MatchLabels map[string]string `json:"matchLabels"`
				} `json:"selector"`
				URI    string `json:"uri"`
				SHA256 string `json:"sha256"`
				Bin    string `json:"bin"`
			} `json:"platforms"`
		} `json:"spec"`
	}
	text, err := os.ReadFile(filepath.Join(dist, "multicluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, new(map[string]any)); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Spec.Platforms) != 1 || manifest.Spec.Version != "v1.2.3" {
		t.Fatalf("the manifest is\n%s", text)
	}
	platform := manifest.Spec.Platforms[0]
	archive := filepath.Join(dist, filepath.Base(platform.URI))
	if got := checksum(t, archive); got != platform.SHA256 {
		t.Errorf("the manifest has the checksum %s, and the archive %s", platform.SHA256, got)
	}
	if labels := platform.Selector.MatchLabels; labels["os"]+"/"+labels["arch"] != system {
		t.Errorf("the selector is %v", labels)
	}
	folder := unpack(t, archive)
	for _, name := range []string{"LICENSE", "kubectl_complete-multicluster", platform.Bin} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, platform.Bin), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v1.2.3") {
		t.Errorf("--version: %v, %s", err, out)
	}
}

func checksum(t *testing.T, path string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(file)
	return hex.EncodeToString(sum[:])
}

// unpack unpacks an archive into a new folder.
func unpack(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return folder
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(header.Name)), content, header.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
