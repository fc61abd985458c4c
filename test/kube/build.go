package kube

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Programs are the names that Build knows: first those of an API server and what goes with it, then those that only a node needs.
var Programs = []string{"etcd", "kube-apiserver", "kubectl", "controllers", "kube-proxy", "kube-controller-manager", "kubelet", "kube-scheduler"}

// withoutNode lists what Build builds if no names are given.
var withoutNode = Programs[:6]

const kubernetesModule = "k8s.io/kubernetes"

// newest pins the programs that tests run.
var newest = Module{
	Dir: "test/kube/programs", Requires: kubernetesModule, Packages: packagesOf, Files: []string{"etcd/main.go", "controllers/main.go"},
	Usual: "2 to 4 minutes",
}

// oldest pins the oldest supported kube-apiserver. The tag leaves out the clients of clouds, a third of its packages.
var oldest = Module{Dir: "test/kube/oldest", Requires: kubernetesModule, Packages: packagesOf, Tags: "providerless", Usual: "about 4 minutes"}

// packagesOf are the packages of Programs.
var packagesOf = func() map[string]string {
	packages := map[string]string{}
	for _, name := range Programs {
		packages[name] = kubernetesModule + "/cmd/" + name
	}
	packages["etcd"], packages["controllers"] = "./etcd", "./controllers"
	return packages
}()

// Flags are GOFLAGS of all that tests build, with CGO_ENABLED=0: those of build/env.sh, so that what Go has compiled for one of this
// project's programs is there for all.
const Flags = "-trimpath -buildvcs=false -gcflags=all=-dwarf=false"

// Build gives the paths of the named programs (those that need no node, if none is named), and builds those that are not in the
// user's cache yet. One process at a time builds: several would fill a small machine.
func Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		names = withoutNode
	}
	const apiserver = "kube-apiserver"
	paths := map[string]string{}
	if IsOldest() && slices.Contains(names, apiserver) {
		var err error
		if paths, err = oldest.Build(ctx, progress, apiserver); err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == apiserver })
	}
	if len(names) == 0 {
		return paths, nil
	}
	others, err := newest.Build(ctx, progress, names...)
	maps.Copy(paths, others)
	return paths, err
}

// IsOldest reports whether the API server of the tests is the oldest supported one, which lacks what later versions have.
// `make compat` sets the variable.
func IsOldest() bool { return os.Getenv("OLDEST_KUBERNETES") != "" }

// Build gives the paths of the named programs (all, if none is named), and builds those that are not in the user's cache yet.
func (m Module) Build(ctx context.Context, progress io.Writer, names ...string) (map[string]string, error) {
	s, err := m.source()
	if err != nil {
		return nil, err
	}
	known := slices.Sorted(maps.Keys(m.Packages))
	if len(names) == 0 {
		names = known
	}
	paths := map[string]string{}
	for _, name := range names {
		if m.Packages[name] == "" {
			return nil, fmt.Errorf("%s has no program %q: there are %s", m.Dir, name, strings.Join(known, ", "))
		}
		paths[name] = s.path(name)
	}
	if len(s.missing(names)) == 0 {
		return paths, nil
	}
	waits := time.AfterFunc(time.Second, func() { _, _ = fmt.Fprintln(progress, "waiting for another build of", m.Requires) })
	unlock, err := LockFolder(ctx, s.cache)
	waits.Stop()
	if err != nil {
		return nil, err
	}
	defer unlock()
	return paths, s.build(ctx, progress, s.missing(names)) // without what another process has built meanwhile
}

func (s source) path(name string) string { return filepath.Join(s.cache, name) }

func (s source) missing(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return exists(s.path(name)) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// build links into a folder first: a build cut short leaves nothing that looks finished. All in one run of go, whose linkers then work
// side by side.
func (s source) build(ctx context.Context, progress io.Writer, names []string) error {
	if len(names) == 0 {
		return nil
	}
	all := strings.Join(names, ", ")
	_, _ = fmt.Fprintf(progress, "building %s of %s %s (only once, %s on two cores)\n", all, s.Requires, s.version, s.Usual)
	unfinished := s.path("unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	args := []string{"build", "-v", "-tags", s.Tags, "-ldflags", s.ldflags, "-o", unfinished + "/"}
	for _, name := range names {
		args = append(args, s.Packages[name])
	}
	if err := runGo(progress, "building "+all, Go(ctx, s.dir, args...)); err != nil {
		return fmt.Errorf("build %s: %w", all, errors.Join(err, ctx.Err()))
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(unfinished, name), s.path(name)); err != nil {
			return err
		}
	}
	return os.Remove(unfinished)
}

// runGo runs go build -v, which names each package on a line, and prints every 20 seconds how many there were. Its other lines are in the error.
func runGo(progress io.Writer, what string, cmd *exec.Cmd) error {
	output, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var other bytes.Buffer
	compiled, next := 0, time.Now().Add(20*time.Second)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.ContainsAny(lines.Text(), " :\t") {
			_, _ = fmt.Fprintln(&other, lines.Text())
			continue
		}
		compiled++
		if time.Now().After(next) {
			_, _ = fmt.Fprintf(progress, "%s: %d packages\n", what, compiled)
			next = time.Now().Add(20 * time.Second)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, &other)
	}
	return nil
}

// Go is a run of go in a folder, with the flags of all that tests build.
func Go(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+Flags, "GOWORK=off")
	// An interrupt lets go end its compilers; killed, it would leave them running.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd
}

// Output is what a command prints. Its other words are in the error.
func Output(cmd *exec.Cmd) (string, error) {
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, &words)
	}
	return strings.TrimSpace(string(out)), err
}
