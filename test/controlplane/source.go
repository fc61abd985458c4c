package controlplane

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

// source is a module that pins what programs are built from: test/controlplane/kube, or test/controlplane/oldest.
type source struct {
	dir        string
	kubernetes string // version, with the leading v
	tags       string // of the build
	key        string // changes with whatever changes a built program
}

var errNoSource = errors.New("the module test/controlplane/kube is not there: controlplane works inside a checkout of the repository only")

// Root is this project's top folder: upwards from the working directory, which `go test` sets to the package's own folder. The
// compiler's record of a source file's place is no use, as there is none under -trimpath.
func Root() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; here != filepath.Dir(here); here = filepath.Dir(here) {
		if isModule(filepath.Join(here, "test", "controlplane", "kube")) {
			return here, nil
		}
	}
	return "", errNoSource
}

func findSource() (source, error) {
	root, err := Root()
	if err != nil {
		return source{}, err
	}
	return readSource(filepath.Join(root, "test", "controlplane", "kube"), "etcd/main.go", "controllers/main.go")
}

// findOldest is the source of the oldest supported kube-apiserver. The tag leaves out the clients of clouds, a third of its packages.
func findOldest() (source, error) {
	root, err := Root()
	if err != nil {
		return source{}, err
	}
	s, err := readSource(filepath.Join(root, "test", "controlplane", "oldest"))
	s.tags = "providerless"
	return s, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// readSource reads the versions of a module. The files are those that change a program, beside go.mod and go.sum.
func readSource(dir string, files ...string) (source, error) {
	s := source{dir: dir}
	sum := sha256.New()
	for _, name := range append([]string{"go.mod", "go.sum"}, files...) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return source{}, err
		}
		sum.Write(text)
		if name == "go.mod" {
			s.kubernetes = required(text, "k8s.io/kubernetes")
		}
	}
	if s.kubernetes == "" {
		return source{}, fmt.Errorf("%s/go.mod does not require k8s.io/kubernetes", dir)
	}
	_, _ = fmt.Fprint(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	s.key = fmt.Sprintf("%s-%.6x", s.kubernetes, sum.Sum(nil))
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
