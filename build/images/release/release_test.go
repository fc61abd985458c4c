package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// TestRelease makes what is derived from images and archives, twice. A program of this module stands for each of the programs: it has
// modules, and is built in seconds.
func TestRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds Helm, and a program")
	}
	t.Chdir("../../..")
	program := buildProgram(t)
	r := testRelease(t, program)
	if err := r.describe(t.Context(), "# Notes\n"); err != nil {
		t.Fatal(err)
	}
	checkSums(t, r)
	checkSBOMs(t, r, program)
	checkChart(t, r)
	again := testRelease(t, program)
	if err := again.describe(t.Context(), "# Notes\n"); err != nil {
		t.Fatal(err)
	}
	if first, second := content(t, r, "checksums.txt"), content(t, again, "checksums.txt"); first != second {
		t.Errorf("a second run has other files:\n%s\nand\n%s", first, second)
	}
}

func buildProgram(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./push")
	cmd.Dir, cmd.Env = "build/images", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// testRelease has the images and an archive of kubectl-multicluster in its folder.
func testRelease(t *testing.T, program string) *release {
	t.Helper()
	r := &release{
		version: "v1.2.3-test.1", registry: "registry.example.org/team", coredns: "v1.15.0", folder: t.TempDir(),
		created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range archives.Programs {
		layers := tarOf(t, map[string][]byte{name: text})
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layers)), nil })
		if err != nil {
			t.Fatal(err)
		}
		img, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		written, err := layout.Write(folder, empty.Index)
		if err := errors.Join(err, written.AppendImage(img)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(r.folder, name+".tar"), tarOf(t, filesBelow(t, folder)))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(tarOf(t, map[string][]byte{"./LICENSE": nil, "./kubectl-multicluster.exe": text}))
	_ = w.Close()
	write(t, filepath.Join(r.folder, "kubectl-multicluster_windows_amd64.tar.gz"), packed.Bytes())
	return r
}

func filesBelow(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		files[name], _ = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func tarOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var all bytes.Buffer
	w := tar.NewWriter(&all)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		if _, werr := w.Write(files[name]); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, r *release, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkSums verifies the checksums as users do, and that every other file has one.
func checkSums(t *testing.T, r *release) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "checksums.txt")
	cmd.Dir = r.folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	want := []string{
		"coredns.spdx.json", "coredns.tar", "kubectl-multicluster.spdx.json", "kubectl-multicluster_windows_amd64.tar.gz",
		"multicluster-1.2.3-test.1.tgz", "multicluster-controller.spdx.json", "multicluster-controller.tar", "release-notes.md",
	}
	var got []string
	for line := range strings.Lines(content(t, r, "checksums.txt")) {
		got = append(got, strings.Fields(line)[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("checksums.txt has\n%q, want\n%q", got, want)
	}
}

// checkSBOMs reads the documents by the library that defines the format, and compares them with what Go says of the program.
func checkSBOMs(t *testing.T, r *release, program string) {
	t.Helper()
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"github.com/clusterset-dns/multicluster/build/images@v1.2.3-test.1", "stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, dep := range info.Deps {
		want = append(want, dep.Path+"@"+strings.ReplaceAll(dep.Version, "+", "%2B"))
	}
	slices.Sort(want)
	for _, name := range []string{"coredns", "multicluster-controller", "kubectl-multicluster"} {
		text := content(t, r, name+".spdx.json")
		d, err := spdx.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := spdxlib.ValidateDocument(d); err != nil || d.SPDXVersion != "SPDX-2.3" || !json.Valid([]byte(text)) {
			t.Errorf("%s: %s, %v", name, d.SPDXVersion, err)
		}
		described, err := spdxlib.GetDescribedPackageIDs(d)
		if err != nil || len(described) != 1 || d.Packages[0].PackageSPDXIdentifier != described[0] || d.Packages[0].PackageName != name || d.Packages[0].PackageVersion != r.version {
			t.Errorf("%s describes %v, %v", name, described, err)
		}
		var got []string
		for _, p := range d.Packages[1:] {
			got = append(got, strings.TrimPrefix(p.PackageExternalReferences[0].Locator, "pkg:golang/"))
			if !regexp.MustCompile(`^[A-Za-z0-9.-]+$`).MatchString(string(p.PackageSPDXIdentifier)) {
				t.Errorf("%s: %q is no identifier", name, p.PackageSPDXIdentifier)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s has the modules\n%q, want\n%q", name, got, want)
		}
	}
}

// checkChart renders the packaged chart with Helm: its images are those of the release.
func checkChart(t *testing.T, r *release) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "helm", "template", "m", filepath.Join(r.folder, "multicluster-1.2.3-test.1.tgz"), "--set", "cluster.id=a")
	cmd.Dir, cmd.Env = "deploy/charts", append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, name := range archives.Programs {
		archive, err := archives.Open(filepath.Join(r.folder, name+".tar"), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "registry.example.org/team/"+name+"@"+archive.Digest.String())
		if notes := content(t, r, "release-notes.md"); !strings.HasPrefix(notes, "# Notes\n") || !strings.Contains(notes, want[len(want)-1]+"\n") {
			t.Errorf("the notes are\n%s", notes)
		}
	}
	var got []string
	for _, found := range regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(string(out), -1) {
		got = append(got, found[1])
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the chart has the images %q, want %q", got, want)
	}
	if !strings.Contains(string(out), "helm.sh/chart: multicluster-1.2.3-test.1\n") || strings.Contains(string(out), "registry.invalid") {
		t.Errorf("the chart renders\n%s", out)
	}
	cmd = exec.CommandContext(t.Context(), "go", "tool", "helm", "template", "m", filepath.Join(r.folder, "multicluster-1.2.3-test.1.tgz"), "--set", "cluster.id=a,controller.image.tag=v2")
	cmd.Dir, cmd.Env = "deploy/charts", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "controller.image has a tag and a digest") {
		t.Errorf("with another tag: %v, %s", err, out)
	}
	cmd = exec.CommandContext(t.Context(), "go", "tool", "helm", "show", "all", filepath.Join(r.folder, "multicluster-1.2.3-test.1.tgz"))
	cmd.Dir, cmd.Env = "deploy/charts", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "appVersion: v1.2.3-test.1\n") || strings.Contains(string(out), "registry.invalid/") {
		t.Errorf("%v: the chart is\n%s", err, out)
	}
}
