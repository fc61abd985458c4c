package main

import (
	"os"
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
		t.Error("README.md does not show what test/results holds: run `make readme`")
	}
	if !strings.Contains(filled, "<!-- BEGIN test/results/demo.txt -->") {
		t.Error("README.md has lost the demo's output")
	}
}
