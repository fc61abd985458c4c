package kube

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// setupEnvtest is the tool that downloads the programs of Kubernetes' envtest. It has no module of this project's: go install fetches it.
const setupEnvtest = "sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1"

// oldestEtcd has --unsafe-no-fsync, and all that kube-apiserver asks of it.
var oldestEtcd = version.MustParseGeneric("3.5.0")

// Find gives the paths of programs as Build does. But what is not in the user's cache need not be built: it takes programs of the pinned minor
// version from the folder KUBEBUILDER_ASSETS, from the PATH, and from what setup-envtest downloads (ENVTEST_INSTALLED_ONLY=1: has downloaded), in this
// order. Tests take Build, as what they assert is of the pinned versions.
func Find(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	b, err := newBuilder(progress, findSource)
	if err != nil {
		return nil, err
	}
	return finder{b, "", filepath.Join(filepath.Dir(b.dir), "envtest")}.find(ctx, names)
}

// finder finds programs that somebody else has built.
type finder struct {
	*builder
	index string // of setup-envtest; its own unless given
	store string // where setup-envtest keeps what it downloads
}

func (f finder) find(ctx context.Context, names []string) (map[string]string, error) {
	paths := map[string]string{}
	missing := func() (left []string) {
		for _, name := range names {
			if paths[name] == "" {
				left = append(left, name)
			}
		}
		return left
	}
	for _, name := range names {
		if len(f.missing([]string{name})) == 0 {
			paths[name] = f.path(name)
		}
	}
	for _, look := range []func(context.Context, []string) map[string]string{f.inAssets, f.onPath, f.byEnvtest, f.built} {
		for name, path := range look(ctx, missing()) {
			paths[name] = path
		}
	}
	return paths, f.ensure(ctx, builtHere(paths, f.dir))
}

// builtHere are the programs whose paths are in a folder.
func builtHere(paths map[string]string, dir string) (names []string) {
	for _, name := range Programs {
		if filepath.Dir(paths[name]) == dir {
			names = append(names, name)
		}
	}
	return names
}

// built are the paths at which ensure builds.
func (f finder) built(_ context.Context, names []string) map[string]string {
	paths := map[string]string{}
	for _, name := range names {
		paths[name] = f.path(name)
	}
	return paths
}

func (f finder) inAssets(ctx context.Context, names []string) map[string]string {
	return f.inFolder(ctx, "KUBEBUILDER_ASSETS", os.Getenv("KUBEBUILDER_ASSETS"), names)
}

func (f finder) onPath(ctx context.Context, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && f.takes(ctx, "the PATH", name, path) {
			found[name] = path
		}
	}
	return found
}

// byEnvtest asks setup-envtest where it has the three programs that it knows, which may download them.
func (f finder) byEnvtest(ctx context.Context, names []string) map[string]string {
	wanted := []string{}
	for _, name := range names {
		if name == "etcd" || name == "kube-apiserver" || name == "kubectl" {
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	done := report(f.progress, "looking for prebuilt programs, by setup-envtest")
	dir, err := f.envtest(ctx)
	done()
	if err != nil {
		_, _ = fmt.Fprintf(f.progress, "setup-envtest has no %s: %v\n", strings.Join(wanted, ", "), err)
		return nil
	}
	return f.inFolder(ctx, "setup-envtest", dir, wanted)
}

func (f finder) envtest(ctx context.Context) (dir string, err error) {
	if _, err := f.output(ctx, "go", "install", setupEnvtest); err != nil {
		return "", err
	}
	args := []string{"use", minorOf(f.source.version) + ".x", "--print=path", "--bin-dir=" + f.store}
	if f.index != "" {
		args = append(args, "--index="+f.index)
	}
	return f.output(ctx, filepath.Join(f.store, "setup-envtest"), args...)
}

// output is what a program prints. An interrupt ends it.
func (f finder) output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+Flags, "GOWORK=off", "GOBIN="+f.store)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, firstLines(errors.String(), 3))
	}
	return strings.TrimSpace(string(out)), nil
}

func firstLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[:min(n, len(lines))], "; ")
}

func (f finder) inFolder(ctx context.Context, where, dir string, names []string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if dir != "" && exists(path) && f.takes(ctx, where, name, path) {
			found[name] = path
		}
	}
	return found
}

// takes reports whether a program has a version that fits, and prints it: the output of the demo
// comes from that program.
func (f finder) takes(ctx context.Context, where, name, path string) bool {
	got, err := versionOf(ctx, name, path)
	switch {
	case err != nil:
		_, _ = fmt.Fprintf(f.progress, "not taking %s of %s: %v\n", path, where, err)
	case !f.fits(name, got):
		_, _ = fmt.Fprintf(f.progress, "not taking %s of %s: it is %s, and %s is wanted\n", path, where, got, f.wanted(name))
	default:
		_, _ = fmt.Fprintf(f.progress, "taking %s %s of %s\n", name, got, where)
		return true
	}
	return false
}

func (f finder) fits(name string, got *version.Version) bool {
	if name == "etcd" {
		return got.Major() == oldestEtcd.Major() && got.AtLeast(oldestEtcd)
	}
	return fmt.Sprintf("%d.%d", got.Major(), got.Minor()) == minorOf(f.source.version)
}

func (f finder) wanted(name string) string {
	if name == "etcd" {
		return fmt.Sprintf("%d.%d or newer", oldestEtcd.Major(), oldestEtcd.Minor())
	}
	return minorOf(f.source.version)
}

// minorOf is 1.37 of v1.37.1.
func minorOf(kubernetes string) string {
	v := version.MustParseGeneric(kubernetes)
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

var aVersion = regexp.MustCompile(`\d+\.\d+\.\d+`)

// versionOf is what a program says of itself.
func versionOf(ctx context.Context, name, path string) (*version.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	args := []string{"--version"}
	if name == "kubectl" {
		args = []string{"version", "--client"}
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", path, strings.Join(args, " "), err)
	}
	text := aVersion.FindString(string(out))
	if text == "" {
		return nil, fmt.Errorf("%s %s names no version", path, strings.Join(args, " "))
	}
	return version.ParseGeneric(text)
}
