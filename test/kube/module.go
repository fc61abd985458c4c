package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// Module is a module of this repository that pins the version of another project, whose programs tests run.
type Module struct {
	Dir      string            // from this project's top folder
	Requires string            // the path of the other project's module
	Packages map[string]string // of each program: its name is the last part of the package's path
	Files    []string          // of Dir, of programs of our own in it: a changed one is built again
	Tags     string
	Usual    string // how long the first build takes on two cores
}

// source is what is known of a module on this machine.
type source struct {
	Module
	dir     string
	version string // of the other project, with the leading v
	cache   string // the folder of the built programs: another one when anything changes that changes a program
	ldflags string
}

var errNoSource = errors.New("the module test/kube/programs is not there: package kube works inside a checkout of the repository only")

// Root is this project's top folder: upwards from the working directory, which `go test` sets to the package's own folder. The
// compiler's record of a source file's place is no use, as there is none under -trimpath.
func Root() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; here != filepath.Dir(here); here = filepath.Dir(here) {
		if exists(filepath.Join(here, newest.Dir, "go.mod")) {
			return here, nil
		}
	}
	return "", errNoSource
}

// Version is the version of the other project's module, with the leading v.
func (m Module) Version() (string, error) {
	s, err := m.source()
	return s.version, err
}

// Source is the folder of the other project's files, which Go downloads if need be: its CRDs are read from there, not copied.
func (m Module) Source(ctx context.Context) (string, error) {
	s, err := m.source()
	if err != nil {
		return "", err
	}
	if _, err := Output(Go(ctx, s.dir, "mod", "download", m.Requires)); err != nil {
		return "", err
	}
	return Output(Go(ctx, s.dir, "list", "-m", "-f", "{{.Dir}}", m.Requires))
}

// source reads the version that is required. What the name of the cache is made of stays as it is: another name, and all is built again.
func (m Module) source() (source, error) {
	root, err := Root()
	if err != nil {
		return source{}, err
	}
	s := source{Module: m, dir: filepath.Join(root, m.Dir), ldflags: "-s -w"}
	sum := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, m.Files...) {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return source{}, err
		}
		sum.Write(text)
		if name == "go.mod" {
			s.version = required(text, m.Requires)
		}
	}
	if s.version == "" {
		return source{}, fmt.Errorf("%s/go.mod does not require %s", s.dir, m.Requires)
	}
	_, _ = fmt.Fprint(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	key := fmt.Sprintf("%s-%.6x", s.version, sum.Sum(nil))
	if m.Requires == kubernetesModule {
		s.ldflags += " -X k8s.io/component-base/version.gitVersion=" + s.version
	} else {
		key = filepath.Base(m.Dir) + "-" + key
	}
	s.cache, err = CacheFolder(key)
	return s, err
}

// CacheFolder is a folder of this project's in the user's cache.
func CacheFolder(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "clusterset-dns", name)
	return dir, os.MkdirAll(dir, 0o755)
}

// required is the version of a module in a go.mod file, or "".
func required(gomod []byte, module string) string {
	found := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(gomod)
	if found == nil {
		return ""
	}
	return string(found[1])
}
