package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every figure and output in the README comes from a file that a make target wrote.
func TestTheReadmeShowsWhatTheTargetsWrote(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	filled, err := fill(string(text), read("../../"))
	if err != nil {
		t.Fatal(err)
	}
	if filled != string(text) {
		t.Error("README.md does not show what docs/results holds: run `make readme`")
	}
	if !strings.Contains(filled, "<!-- BEGIN docs/results/demo.txt -->") {
		t.Error("README.md has lost the demo's output")
	}
}

// TestResultsAreOfACommit: whoever doubts a figure has to find the code that it was measured with.
func TestResultsAreOfACommit(t *testing.T) {
	files, err := filepath.Glob("../../docs/results/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of results: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "-dirty") {
			t.Errorf("%s is of files that no commit has: commit them, and measure again", file)
		}
	}
}

// Each folder of tests is explained in so few lines that they are read. What users need is in docs.
func TestReadmesOfTestFoldersAreShort(t *testing.T) {
	const most = 30
	folders, err := filepath.Glob("../*/")
	if err != nil || len(folders) > 8 {
		t.Errorf("%d folders of tests, of 8 at most: %v", len(folders), err)
	}
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, "README.md"))
		if lines := strings.Count(string(text), "\n"); err != nil || lines > most {
			t.Errorf("%sREADME.md has %d lines, of %d at most: %v", folder, lines, most, err)
		}
	}
}
