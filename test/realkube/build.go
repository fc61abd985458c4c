package realkube

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
var Programs = []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-proxy", "kubelet", "kube-scheduler"}

// withoutNode is what Build builds where it is told no names.
var withoutNode = Programs[:5]

// Build gives the paths of the named programs (those that need no node, if none is named), building those that are not in the
// user's cache yet: one after another, and in one process at a time, because the linker of kube-apiserver alone fills a small
// machine.
func Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		names = withoutNode
	}
	b, err := newBuilder(progress)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range names {
		if !slices.Contains(Programs, name) {
			return nil, fmt.Errorf("no program %q: there are %s", name, strings.Join(Programs, ", "))
		}
		paths[name] = filepath.Join(b.dir, name)
		if err := b.ensure(ctx, name, paths[name]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

type builder struct {
	source   source
	dir      string // of the built programs
	progress io.Writer
}

func newBuilder(progress io.Writer) (*builder, error) {
	s, err := findSource()
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

// ensure builds one program unless it is there, also after having waited for another process that was building it.
func (b *builder) ensure(ctx context.Context, name, path string) error {
	if exists(path) {
		return nil
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if exists(path) {
		return nil
	}
	return b.build(ctx, name, path)
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
	done := report(b.progress, "waiting for another process that builds Kubernetes")
	defer done()
	err = poll(ctx, 100*time.Millisecond, func(context.Context) error {
		return tryLock(file)
	})
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// build links to another name first: a build cut short leaves nothing that looks finished.
func (b *builder) build(ctx context.Context, name, path string) error {
	version, target := b.source.kubernetes, "k8s.io/kubernetes/cmd/"+name
	if name == "etcd" {
		version, target = b.source.etcd, "./etcd"
	}
	done := report(b.progress, fmt.Sprintf("building %s %s (only once, %s on two cores)", name, version, usual(name)))
	defer done()

	unfinished := path + ".unfinished"
	flags := "-s -w -X k8s.io/component-base/version.gitVersion=" + b.source.kubernetes
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", flags, "-o", unfinished, target)
	cmd.Dir = b.source.dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	// An interrupt lets go end its compilers; killed, it would leave them running.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, errors.Join(err, ctx.Err()), output.Bytes())
	}
	return os.Rename(unfinished, path)
}

// usual is how long the first build takes where nothing is in Go's own cache, in the order of Programs.
func usual(name string) string {
	switch name {
	case "kube-apiserver":
		return "about 4 minutes"
	case "kube-controller-manager":
		return "about 2 minutes"
	case "kubelet":
		return "about a minute"
	}
	return "less than a minute"
}
