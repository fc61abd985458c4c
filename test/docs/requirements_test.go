package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const requirements = "docs/requirements.md"

var (
	requirement = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+) \|.*$`)
	citation    = regexp.MustCompile(`\b[A-Z][0-9]{1,2}[a-c]?\b`)
	testName    = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	storyName   = regexp.MustCompile("`TestStories/([a-z0-9-]+)`")
	testFunc    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	// notCodes look like codes of requirements: percentiles, and a method of client-go.
	notCodes = []string{"P50", "P99", "V1"}
)

// TestCodesAreRequirements: a reader of a comment that cites a code finds the demand in docs/requirements.md.
func TestCodesAreRequirements(t *testing.T) {
	listed := listedRequirements(t)
	cited := 0
	eachText(t, func(file, text string) {
		lines := bufio.NewScanner(strings.NewReader(text))
		lines.Buffer(nil, len(text)+1)
		for n := 1; lines.Scan(); n++ {
			for _, code := range citation.FindAllString(lines.Text(), -1) {
				cited++
				if _, ok := listed[code]; !ok && !slices.Contains(notCodes, code) {
					t.Errorf("%s:%d cites %s, which %s does not list", file, n, code, requirements)
				}
			}
		}
	})
	if cited < 300 {
		t.Errorf("found %d citations only: the files were not read", cited)
	}
}

// TestRequirementsSayWhatShowsThem: each row names tests, or contains why there is none.
func TestRequirementsSayWhatShowsThem(t *testing.T) {
	for code, row := range listedRequirements(t) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), "|")
		if strings.TrimSpace(cells[len(cells)-1]) == "" {
			t.Errorf("%s: the last cell is empty", code)
		}
	}
}

// TestDocumentsNameTestsThatExist is for all documents, docs/requirements.md first of all. A story is TestStories/ with the name of its file.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	eachText(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") {
			for _, match := range testFunc.FindAllStringSubmatch(text, -1) {
				exists[match[1]] = true
			}
		}
	})
	for file, text := range documents(t) {
		for _, match := range storyName.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, "test", "simulation", "testdata", match[1]+".txt")); err != nil {
				t.Errorf("%s: there is no story %s", file, match[1])
			}
		}
		for _, match := range testName.FindAllStringSubmatch(text, -1) {
			if !exists[match[1]] {
				t.Errorf("%s: there is no %s", file, match[1])
			}
		}
	}
}

// listedRequirements returns the rows of docs/requirements.md by code.
func listedRequirements(t *testing.T) map[string]string {
	t.Helper()
	listed := map[string]string{}
	for _, match := range requirement.FindAllStringSubmatch(string(readFile(t, requirements)), -1) {
		if _, twice := listed[match[1]]; twice {
			t.Errorf("%s is listed twice", match[1])
		}
		listed[match[1]] = match[0]
	}
	if len(listed) < 50 {
		t.Fatalf("found %d requirements only", len(listed))
	}
	return listed
}

// eachText calls do with each text that this project's people wrote.
func eachText(t *testing.T, do func(file, text string)) {
	t.Helper()
	skipped := []string{".git", "bin", "out", "results"} // what is built, and what was measured
	read := []string{".go", ".md", ".yaml", ".sh", ".Corefile", "Makefile", "Corefile"}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // Other tests make files and delete them.
			return nil
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !slices.ContainsFunc(read, func(end string) bool { return strings.HasSuffix(path, end) }):
			return nil
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		do(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
