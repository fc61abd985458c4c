// Package walls contains checks for tests of the packages that a package can import.
package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Module is this module's path, the prefix of the paths of its packages.
const Module = "github.com/clusterset-dns/multicluster/"

// values are packages that only compute: they read no file, network or environment. Packages of API
// types are among them. The linter forbids the clock of package time.
var values = []string{
	"cmp", "crypto/rand", "crypto/sha256", "encoding/hex", "encoding/json", "fmt", "hash/fnv", "iter", "maps", "net/netip", "slices", "strconv", "strings", "time", "weak",
	"k8s.io/api/core/v1", "k8s.io/api/discovery/v1",
	"k8s.io/apimachinery/pkg/api/equality", "k8s.io/apimachinery/pkg/api/meta", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types",
	"k8s.io/apimachinery/pkg/util/validation",
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1", "sigs.k8s.io/structured-merge-diff/v6/fieldpath",
	Module + "internal/brief", Module + "internal/mcs", Module + "internal/ownership",
}

// maxFunctions is the maximum number of exported functions of a stage: one entry point and a few
// others.
const maxFunctions = 5

// Stage fails the test if Pure does, or if the package in the working directory exports too many
// functions.
func Stage(t *testing.T, own ...string) {
	t.Helper()
	Pure(t, own...)
	few(t)
}

// Pure fails the test if the package in the working directory imports anything except packages that
// only compute, and the given packages of this module.
func Pure(t *testing.T, own ...string) {
	t.Helper()
	check(t, func(path string) bool {
		return slices.Contains(values, path) || slices.Contains(own, strings.TrimPrefix(path, Module))
	},
		"this package computes values from values; clients, loggers and clocks belong to reconcile, peers and apply")
}

// Own fails the test if the package in the working directory imports a package of this module that
// is not given, or exports too many functions.
func Own(t *testing.T, own ...string) {
	t.Helper()
	check(t, func(path string) bool {
		name, ours := strings.CutPrefix(path, Module)
		return !ours || slices.Contains(own, name)
	}, "the stages of a pass stand in one order: see controller/README.md")
	few(t)
}

func check(t *testing.T, allowed func(path string) bool, reason string) {
	t.Helper()
	for name, file := range parse(t) {
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !allowed(path) {
				t.Errorf("%s imports %s: %s", name, path, reason)
			}
		}
	}
}

// few fails the test if the package exports too many functions, not counting methods.
func few(t *testing.T) {
	t.Helper()
	var exported []string
	for _, file := range parse(t) {
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.IsExported() {
				exported = append(exported, f.Name.Name)
			}
		}
	}
	if len(exported) > maxFunctions {
		t.Errorf("%d functions are exported, of %d at most: %s", len(exported), maxFunctions, strings.Join(exported, ", "))
	}
}

// parse parses the package's files, without tests.
func parse(t *testing.T) map[string]*ast.File {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	parsed := map[string]*ast.File{}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		if parsed[file.Name()], err = parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	return parsed
}
