package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRulesCanStillBeBroken: what test/broken changes is in the product, and the tests that have to find it are there. So are those that a
// part of CI chooses by their names.
func TestRulesCanStillBeBroken(t *testing.T) {
	var rules []struct{ Rule, File, Old, Test string }
	list := text(t, "test/broken/rules.yaml")
	if err := yaml.Unmarshal([]byte(list), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules) < 40 {
		t.Errorf("%d rules, want at least 40", len(rules))
	}
	known := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t? ?\*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(content), -1) {
			known[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if !strings.Contains(text(t, r.File), r.Old) {
			t.Errorf("%s: %s does not contain %q", r.Rule, r.File, r.Old)
		}
		fields := strings.Fields(r.Test)
		test, story, _ := strings.Cut(fields[len(fields)-1], "/")
		if !known[test] {
			t.Errorf("%s: no package has the test %s", r.Rule, test)
		}
		if story != "" {
			text(t, "test/simulation/testdata/"+story+".txt")
		}
	}
	for _, file := range []string{"test/parts/parts.go", "build/compat.sh", "Makefile"} {
		for _, test := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(text(t, file), -1) {
			if !known[test] {
				t.Errorf("%s: no package has the test %s", file, test)
			}
		}
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
