package main

import (
	"runtime/debug"
	"slices"
	"testing"
)

// TestModules: a module that a folder replaces is of this repository, and one that another module replaces is that other one. A module that
// only some systems have is there.
func TestModules(t *testing.T) {
	linux := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "github.com/coredns/coredns", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "github.com/clusterset-dns/multicluster", Version: "v0.0.0", Replace: &debug.Module{Path: "../../..", Version: "(devel)"}},
			{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/b", Version: "v2.0.0", Sum: "h1:b="}},
		},
	}
	windows := &debug.BuildInfo{GoVersion: "go1.26.8", Main: linux.Main, Deps: append(linux.Deps[:1:1], &debug.Module{Path: "example.org/w", Version: "v1.0.0", Sum: "h1:w="})}
	r := release{version: "v1.2.3", coredns: "v1.15.0"}
	got := r.modules([]*debug.BuildInfo{linux, windows})
	want := []module{
		{"example.org/b", "v2.0.0", "h1:b="},
		{"example.org/w", "v1.0.0", "h1:w="},
		{"github.com/clusterset-dns/multicluster", "v1.2.3", ""},
		{"github.com/coredns/coredns", "v1.15.0", ""},
		{"stdlib", "go1.26.8", ""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := packageURL(module{"stdlib", "go1.26.8", ""}); got != "pkg:golang/stdlib@1.26.8" {
		t.Error(got)
	}
}
