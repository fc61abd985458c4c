package kube

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// source is a module that pins what programs are built from.
type source struct {
	dir      string
	what     string            // its programs are of, for messages
	version  string            // of what, with the leading v
	packages map[string]string // of the programs
	tags     string            // of the build
	ldflags  string
	usual    func(names []string) string // time of the first build
	key      string                      // changes with whatever changes a built program
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
		if isModule(filepath.Join(here, "test", "kube", "programs")) {
			return here, nil
		}
	}
	return "", errNoSource
}

func findSource() (source, error) {
	return ofKubernetes("test/kube/programs", "", "etcd/main.go", "controllers/main.go")
}

// findOldest is the source of the oldest supported kube-apiserver. The tag leaves out the clients of clouds, a third of its packages.
func findOldest() (source, error) {
	return ofKubernetes("test/kube/oldest", "providerless")
}

func ofKubernetes(dir, tags string, files ...string) (source, error) {
	root, err := Root()
	if err != nil {
		return source{}, err
	}
	s, err := readSource(filepath.Join(root, dir), "k8s.io/kubernetes", files...)
	s.what, s.packages, s.tags, s.usual = "Kubernetes", packagesOf, tags, usual
	s.ldflags = "-s -w -X k8s.io/component-base/version.gitVersion=" + s.version
	return s, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// readSource reads the versions of a module. The key begins with the version of one module that it requires. The files are those that change
// a program, beside go.mod and go.sum.
func readSource(dir, module string, files ...string) (source, error) {
	s := source{dir: dir}
	sum := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, files...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return source{}, err
		}
		sum.Write(text)
		if name == "go.mod" {
			s.version = required(text, module)
		}
	}
	if s.version == "" {
		return source{}, fmt.Errorf("%s/go.mod does not require %s", dir, module)
	}
	_, _ = fmt.Fprint(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	s.key = fmt.Sprintf("%s-%.6x", s.version, sum.Sum(nil))
	return s, nil
}

// required is the version of a module in a go.mod file, or "".
func required(gomod []byte, module string) string {
	found := regexp.MustCompile(`(?m)^(?:require)?\s+` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(gomod)
	if found == nil {
		return ""
	}
	return string(found[1])
}
