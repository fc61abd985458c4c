package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// write makes a checkout whose conformance suite is one file.
func write(t *testing.T, text string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "conformance"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "conformance", "objects.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestReadSuite(t *testing.T) {
	s, err := readSuite(write(t, `{Image: "b/request:v0.15"}, {Image:   "alpine/socat:1.7"}, {Image: "alpine/socat:1.7"}`))
	if err != nil || !slices.Equal(s.images, []string{"alpine/socat:1.7", "b/request:v0.15"}) || !filepath.IsAbs(s.folder) {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"package conformance":                    "no line",
		`Image: "alpine/socat"`:                  "alpine/socat has no fixed tag",
		`Image: "registry.example:5000/busybox"`: "busybox has no fixed tag",
		`Image: "busybox:latest"`:                "busybox:latest has no fixed tag",
	} {
		if _, err := readSuite(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	if _, err := readSuite(t.TempDir()); err == nil || !strings.Contains(err.Error(), "checkout of kubernetes-sigs/mcs-api") {
		t.Errorf("a folder without a suite: %v", err)
	}
}

// TestStubSuite: the one that is run if none is given has two images, as the public one has.
func TestStubSuite(t *testing.T) {
	s, err := readSuite(filepath.Join("..", "testdata", "suite"))
	if err != nil || len(s.images) != 2 {
		t.Errorf("%v, %v", s.images, err)
	}
}

func TestFullName(t *testing.T) {
	for image, want := range map[string]string{
		"busybox:1.37":                "docker.io/library/busybox:1.37",
		"alpine/socat:1.7.4.4":        "docker.io/alpine/socat:1.7.4.4",
		"registry.k8s.io/pause:3":     "registry.k8s.io/pause:3",
		"registry.example:5000/a/b:1": "registry.example:5000/a/b:1",
		"localhost/a:1":               "localhost/a:1",
	} {
		if got := fullName(image); got != want {
			t.Errorf("%s: %s; want %s", image, got, want)
		}
	}
}
