package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// TestDocumentsShowWhatTheTargetsWrote: each figure and output in a document comes from a file that a
// make target wrote.
func TestDocumentsShowWhatTheTargetsWrote(t *testing.T) {
	files, err := withBlocks(root)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		filled, err := fill(string(text), read(root))
		if err != nil {
			t.Fatal(err)
		}
		if filled != string(text) {
			t.Errorf("%s does not show what docs/results holds: run `go run ./test/docs`", file)
		}
		for _, found := range block.FindAllStringSubmatch(string(text), -1) {
			shown[found[1]] = true
		}
	}
	results, err := filepath.Glob(filepath.Join(root, "docs", "results", "*.txt"))
	if err != nil || len(results) < 5 {
		t.Fatalf("%d files of results: %v", len(results), err)
	}
	for _, file := range results {
		path, _ := filepath.Rel(root, file)
		if !shown[path] && path != "docs/results/demo.txt" {
			t.Errorf("no document shows %s", path)
		}
		// A reader who doubts a figure can check out the code that it was measured with.
		if strings.Contains(string(readFile(t, path)), "-dirty") {
			t.Errorf("%s was measured with uncommitted changes: commit them, and measure again", path)
		}
	}
}

var source = regexp.MustCompile(`<!-- (\S+) sha256 ([0-9a-f]+) -->`)

// TestPlotsAreOfTheResults: a picture names the results that it was drawn from, and they have not
// changed since.
func TestPlotsAreOfTheResults(t *testing.T) {
	plots, err := filepath.Glob(filepath.Join(root, "docs", "pictures", "bench-*.svg"))
	plots = append(plots, filepath.Join(root, "docs", "pictures", "monitoring.svg"), filepath.Join(root, "docs", "pictures", "scale.svg"))
	if err != nil || len(plots) < 2 {
		t.Fatalf("%d plots: %v", len(plots), err)
	}
	for _, plot := range plots {
		path, _ := filepath.Rel(root, plot)
		of := source.FindStringSubmatch(string(readFile(t, path)))
		if of == nil {
			t.Errorf("%s does not name its results", plot)
			continue
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(readFile(t, of[1]))); sum != of[2] {
			t.Errorf("%s was drawn from other results than %s: run `make plots`", plot, of[1])
		}
	}
}
