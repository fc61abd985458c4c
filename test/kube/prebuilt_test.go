package kube

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// says is a program that prints this version.
func says(text string) []byte { return []byte("#!/bin/sh\necho '" + text + "'\n") }

// put makes a folder with programs.
func put(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), says(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// index serves an index of setup-envtest's with one release, on loopback.
func index(t *testing.T, release string, programs map[string]string) string {
	t.Helper()
	var archive bytes.Buffer
	zip := gzip.NewWriter(&archive)
	files := tar.NewWriter(zip)
	for name, text := range programs {
		content := says(text)
		if err := files.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", release, runtime.GOOS, runtime.GOARCH)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+name {
			_, _ = w.Write(archive.Bytes())
			return
		}
		_, _ = fmt.Fprintf(w, "releases:\n  %s:\n    %s: {hash: %x, selfLink: %s/%s}\n", release, name, sha512.Sum512(archive.Bytes()), server.URL, name)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/index.yaml"
}

func newFinder(t *testing.T, index string) (finder, *bytes.Buffer) {
	t.Helper()
	b := tinyBuilder(t, "package main\n\nfunc main() {}\n")
	b.source.version = "v1.37.3"
	progress := new(bytes.Buffer)
	b.progress = progress
	return finder{b, index, t.TempDir()}, progress
}

// What somebody else has built is taken where it fits, from the nearest place: the folder that the user names, the PATH, a download.
func TestFindTakesWhatFits(t *testing.T) {
	NotShort(t) // setup-envtest is built
	assets := put(t, map[string]string{"kube-apiserver": "Kubernetes v1.37.9", "etcd": "etcd Version: 3.4.9", "kubectl": "no version"})
	path := put(t, map[string]string{"etcd": "etcd Version: 3.6.1", "kubectl": "Client Version: v1.30.0", "kube-apiserver": "Kubernetes v1.37.1"})
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	f, progress := newFinder(t, index(t, "v1.37.2", map[string]string{"kubectl": "Client Version: v1.37.2", "etcd": "etcd Version: 3.6.6", "kube-apiserver": "Kubernetes v1.37.2"}))
	got, err := f.find(t.Context(), []string{"etcd", "kube-apiserver", "kubectl"})
	if err != nil {
		t.Fatalf("%v\n%s", err, progress)
	}
	if got["kube-apiserver"] != filepath.Join(assets, "kube-apiserver") || got["etcd"] != filepath.Join(path, "etcd") || !strings.HasPrefix(got["kubectl"], f.store) {
		t.Errorf("%v\n%s", got, progress)
	}
	for _, line := range []string{
		"taking kube-apiserver 1.37.9 of KUBEBUILDER_ASSETS\n",
		"etcd of KUBEBUILDER_ASSETS: it is 3.4.9, and 3.5 or newer is wanted\n", "kubectl of KUBEBUILDER_ASSETS: " + filepath.Join(assets, "kubectl") + " version --client names no version\n",
		"taking etcd 3.6.1 of the PATH\n", "kubectl of the PATH: it is 1.30.0, and 1.37 is wanted\n",
		"taking kubectl 1.37.2 of setup-envtest\n",
	} {
		if !strings.Contains(progress.String(), line) {
			t.Errorf("nothing says %q:\n%s", line, progress)
		}
	}
}

// Where nothing fits, it is built; and what has been built is taken before all else.
func TestFindBuildsTheRest(t *testing.T) {
	NotShort(t)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("PATH", put(t, map[string]string{"etcd": "etcd Version: 2.3.8"})+":"+os.Getenv("PATH"))
	f, progress := newFinder(t, index(t, "v1.20.2", nil))
	for range 2 {
		got, err := f.find(t.Context(), []string{"etcd"})
		if err != nil || got["etcd"] != f.path("etcd") || !exists(f.path("etcd")) {
			t.Fatalf("%v: %v\n%s", got, err, progress)
		}
		t.Setenv("KUBEBUILDER_ASSETS", put(t, map[string]string{"etcd": "etcd Version: 3.6.1"}))
	}
	if !strings.Contains(progress.String(), "setup-envtest has no etcd: ") {
		t.Errorf("it is not reported that none can be downloaded:\n%s", progress)
	}
}

func TestTheCounterCountsPackages(t *testing.T) {
	var c counter
	for _, part := range []string{"k8s.io/api/co", "re/v1\nfmt\n", "# k8s.io/x\nmain.go:3:1: wrong\n", "rest"} {
		if _, err := c.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.String(); got != "2 packages" {
		t.Errorf("%q", got)
	}
	c.of = 5
	if got := c.String(); got != "2 of 5 packages" {
		t.Errorf("%q", got)
	}
	if got, want := c.rest(), "# k8s.io/x\nmain.go:3:1: wrong\nrest"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}
