// Package walls is for tests that hold which packages a package may import.
package walls

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Module is this module's path, the start of the paths of its own packages.
const Module = "github.com/clusterset-dns/multicluster/"

// values are packages that only compute: they read no file, network or environment. API types are among them. Lint forbids the clock of time.
var values = []string{
	"cmp", "crypto/rand", "crypto/sha256", "encoding/hex", "encoding/json", "fmt", "maps", "net/netip", "slices", "strings", "time",
	"k8s.io/api/core/v1", "k8s.io/api/discovery/v1",
	"k8s.io/apimachinery/pkg/api/equality", "k8s.io/apimachinery/pkg/api/meta", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/types",
	"k8s.io/apimachinery/pkg/util/validation",
	"sigs.k8s.io/mcs-api/pkg/apis/v1beta1",
	Module + "internal/brief", Module + "internal/mcs", Module + "internal/ownership",
}

// Pure fails the test if the package in the working directory imports anything but packages that only compute, and the given ones of this
// module.
func Pure(t *testing.T, own ...string) {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !slices.Contains(values, path) && !slices.Contains(own, strings.TrimPrefix(path, Module)) {
				t.Errorf("%s imports %s: this package computes values from values; clients, loggers and clocks belong to reconcile, peers and apply", file.Name(), path)
			}
		}
	}
}
