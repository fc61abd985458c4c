package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Programs are the names that Build knows: first those of an API server and what goes with it, then those that only a node needs.
var Programs = []string{"etcd", "kube-apiserver", "kubectl", "controllers", "kube-proxy", "kube-controller-manager", "kubelet", "kube-scheduler"}

// packagesOf are the packages of Programs.
var packagesOf = func() map[string]string {
	packages := map[string]string{}
	for _, name := range Programs {
		packages[name] = "k8s.io/kubernetes/cmd/" + name
	}
	packages["etcd"], packages["controllers"] = "./etcd", "./controllers"
	return packages
}()

// Flags are GOFLAGS of all that tests build, with CGO_ENABLED=0: those of build/env.sh, so that what Go has compiled for one of this
// project's programs is there for all.
const Flags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"

// withoutNode lists what Build builds if no names are given.
var withoutNode = Programs[:6]

// Build gives the paths of the named programs (those that need no node, if none is named), and builds those that are not in the
// user's cache yet. One process at a time builds: several would fill a small machine.
func Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		names = withoutNode
	}
	newest, err := newBuilder(progress, findSource)
	if err != nil {
		return nil, err
	}
	of := map[*builder][]string{}
	paths := map[string]string{}
	for _, name := range names {
		if !slices.Contains(Programs, name) {
			return nil, fmt.Errorf("no program %q: there are %s", name, strings.Join(Programs, ", "))
		}
		b := newest
		if name == "kube-apiserver" && IsOldest() {
			if b, err = newBuilder(progress, findOldest); err != nil {
				return nil, err
			}
		}
		paths[name] = b.path(name)
		of[b] = append(of[b], name)
	}
	for b, names := range of {
		if err := b.ensure(ctx, names); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// IsOldest reports whether the API server of the tests is the oldest supported one, which lacks what later versions have.
func IsOldest() bool { return os.Getenv(Oldest) != "" }

// Oldest is the variable of the environment that, not empty, makes Build take the oldest supported kube-apiserver: `make compat` runs tests with it.
const Oldest = "OLDEST_KUBERNETES"

type builder struct {
	source   source
	dir      string // of the built programs
	progress io.Writer
}

func newBuilder(progress io.Writer, find func() (source, error)) (*builder, error) {
	s, err := find()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "clusterset-dns", s.key)
	return &builder{source: s, dir: dir, progress: progress}, os.MkdirAll(dir, 0o755)
}

func (b *builder) path(name string) string { return filepath.Join(b.dir, name) }

// ensure builds the programs that are not there, also after having waited for another process that was building them.
func (b *builder) ensure(ctx context.Context, names []string) error {
	if len(b.missing(names)) == 0 {
		return nil
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	missing := b.missing(names)
	if len(missing) == 0 {
		return nil
	}
	return b.build(ctx, missing)
}

func (b *builder) missing(names []string) (missing []string) {
	for _, name := range names {
		if !exists(b.path(name)) {
			missing = append(missing, name)
		}
	}
	return missing
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock waits until no other process builds. The system lets go of it when its holder dies.
func (b *builder) lock(ctx context.Context) (func(), error) {
	file, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	done := report(b.progress, "waiting for another build of "+b.source.what)
	defer done()
	err = Poll(ctx, 100*time.Millisecond, func(context.Context) error {
		return tryLock(file)
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// build links into a folder first: a build cut short leaves nothing that looks finished. All in one run of go, whose linkers then work
// side by side.
func (b *builder) build(ctx context.Context, names []string) error {
	compiled := counter{of: b.stale(ctx, names)}
	done := report(b.progress, fmt.Sprintf("building %s of %s %s (only once, %s on two cores)",
		strings.Join(names, ", "), b.source.what, b.source.version, b.source.usual(names)), compiled.String)
	defer done()
	unfinished := b.path("unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	cmd := b.goCommand(ctx, append([]string{"build", "-v", "-tags", b.source.tags, "-ldflags", b.source.ldflags, "-o", unfinished + "/"}, b.targets(names)...)...)
	cmd.Stdout, cmd.Stderr = &compiled, &compiled
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(names, ", "), errors.Join(err, ctx.Err()), compiled.rest())
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(unfinished, name), b.path(name)); err != nil {
			return err
		}
	}
	return os.Remove(unfinished)
}

func (b *builder) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.source.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+Flags, "GOWORK=off")
	// An interrupt lets go end its compilers; killed, it would leave them running.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// stale is how many packages have to be compiled; 0 where that is not known.
func (b *builder) stale(ctx context.Context, names []string) int {
	list, err := b.goCommand(ctx, append([]string{"list", "-deps", "-tags", b.source.tags, "-f", "{{if .Stale}}.{{end}}"}, b.targets(names)...)...).Output()
	if err != nil {
		return 0 // the output of the build contains the reason
	}
	return bytes.Count(list, []byte("."))
}

// targets are the programs' packages.
func (b *builder) targets(names []string) (packages []string) {
	for _, name := range names {
		packages = append(packages, b.source.packages[name])
	}
	return packages
}

// usual is how long the first build takes where nothing is in Go's own cache. Most of what the others need is in kube-apiserver too.
func usual(names []string) string {
	if slices.Contains(names, "kube-apiserver") {
		return "about 4 minutes"
	}
	return "about 2 minutes"
}
