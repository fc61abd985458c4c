package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

var variable = regexp.MustCompile(`\b(E2E_[A-Z_]+|KUBECONFIGS)\b`)

// TestReadmeNamesAll: every flag, every variable of the environment that the tests and this program read, and the images.
func TestReadmeNamesAll(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	yours, err := os.ReadFile("../../../docs/e2e.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	new(options).define(flags)
	flags.VisitAll(func(f *flag.Flag) { want = append(want, "`--"+f.Name) })
	here, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := filepath.Glob("../*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Concat(here, tests) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			want = append(want, "`"+name)
		}
	}
	want = append(want, "`coredns`", "`controller`", "`tools`", "`stock`", "`"+images.Tools+"`", "stock="+images.Stock)
	slices.Sort(want)
	for _, name := range slices.Compact(want) {
		if !strings.Contains(string(readme)+string(yours), name) {
			t.Errorf("neither test/e2e/README.md nor docs/e2e.md names %s", name)
		}
	}
}
