package kube

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// tinyBuilder builds a module with one small program instead of Kubernetes.
func tinyBuilder(t *testing.T, program string) *builder {
	t.Helper()
	module := t.TempDir()
	if err := os.Mkdir(filepath.Join(module, "etcd"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := writeFiles(module, map[string][]byte{"go.mod": []byte("module tiny\n\ngo 1.26\n"), "etcd/main.go": []byte(program)})
	if err != nil {
		t.Fatal(err)
	}
	tiny := source{dir: module, packages: map[string]string{"etcd": "./etcd"}, usual: func([]string) string { return "no time" }}
	return &builder{source: tiny, dir: t.TempDir(), progress: io.Discard}
}

// TestAllIsBuiltWithOneSetOfFlags: with another one, a new machine compiles everything twice.
func TestAllIsBuiltWithOneSetOfFlags(t *testing.T) {
	script, err := os.ReadFile("../../build/env.sh")
	if err != nil {
		t.Fatal(err)
	}
	if line := "\nexport GOFLAGS=\"" + Flags + "\"\n"; !strings.Contains(string(script), line) {
		t.Errorf("build/env.sh has no line %q", line)
	}
}

// TestSharedModulesHaveOneVersion: with two, a new machine compiles client-go and the like twice.
func TestSharedModulesHaveOneVersion(t *testing.T) {
	ours, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	kubes, err := os.ReadFile("programs/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	shared := regexp.MustCompile(`(?m)^\s+((?:k8s\.io|sigs\.k8s\.io|golang\.org/x|github\.com/prometheus)/\S+|google\.golang\.org/protobuf) v`)
	for _, module := range shared.FindAllSubmatch(ours, -1) {
		name := string(module[1])
		want, got := required(ours, name), required(kubes, name)
		// A module of Kubernetes' own repository may be given by the replacements alone.
		if got != "" && got != "v0.0.0" && got != want {
			t.Errorf("test/kube/programs has %s %s, and the project %s: go get it there, then go mod tidy", name, got, want)
		}
	}
}

func TestBuildersOfOneProgramTakeTurns(t *testing.T) {
	b := tinyBuilder(t, "package main\n\nfunc main() {}\n")
	path := filepath.Join(b.dir, "etcd")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if err := b.ensure(t.Context(), []string{"etcd"}); err != nil {
				t.Error(err)
			}
			// A process that has the program can run it: the others do not build it again.
			if err := exec.CommandContext(t.Context(), path).Run(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestBuildErrorsContainTheCompilersOutput(t *testing.T) {
	b := tinyBuilder(t, "package main\n\nfunc main() { nonsense() }\n")
	path := filepath.Join(b.dir, "etcd")
	if err := b.ensure(t.Context(), []string{"etcd"}); err == nil || !strings.Contains(err.Error(), "undefined: nonsense") {
		t.Errorf("%v; want the compiler's words", err)
	}
	if exists(path) {
		t.Error("a failed build left a program")
	}
}

func TestBuildKnowsItsPrograms(t *testing.T) {
	if _, err := Build(t.Context(), io.Discard, "kubeadm"); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("%v; want the names that there are", err)
	}
}

// TestNodesAreBuiltByNameOnly: most tests need no node, and its programs take minutes.
func TestNodesAreBuiltByNameOnly(t *testing.T) {
	for _, name := range []string{"kubelet", "kube-scheduler"} {
		if !slices.Contains(Programs, name) || slices.Contains(withoutNode, name) {
			t.Errorf("%s: known are %v, always built %v", name, Programs, withoutNode)
		}
	}
}

func TestBuildGivesUpWaitingWithItsContext(t *testing.T) {
	b := tinyBuilder(t, "package main\n\nfunc main() {}\n")
	unlock, err := b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ensure(ctx, []string{"etcd"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want canceled", err)
	}
}

func TestProgressIsShortInALog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		done := report(&log, "building etcd")
		time.Sleep(45*time.Second + time.Millisecond) //nolint:forbidigo // of the bubble's clock, which takes no time
		done()
		if want := "building etcd: 1 s\nbuilding etcd: 21 s\nbuilding etcd: 41 s\n"; log.String() != want {
			t.Errorf("%q; want %q", log.String(), want)
		}
	})
}

func TestProgressOfQuickWorkIsSilent(t *testing.T) {
	var log strings.Builder
	report(&log, "building etcd")()
	if log.Len() > 0 {
		t.Errorf("%q; want nothing", log.String())
	}
}
