package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// TestLinks checks that each relative link in a document points to a file, and its anchor to a
// heading of that file.
func TestLinks(t *testing.T) {
	for file, text := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			path, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(path, "://") {
				continue // another site: the tests have no network
			}
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: no file %s", file, found[1])
			}
			if content, _ := os.ReadFile(target); anchor != "" && !anchors(string(content))[anchor] {
				t.Errorf("%s: no heading for %s", file, found[1])
			}
		}
	}
}

// documents returns the Markdown files of the project, without their blocks of code.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	eachText(t, func(path, text string) {
		if filepath.Ext(path) == ".md" {
			all[path] = fence.ReplaceAllString(text, "")
		}
	})
	if len(all) < 10 {
		t.Fatalf("found %d documents only", len(all))
	}
	return all
}

// anchors are those that GitHub gives the headings of a document: in lower case, without punctuation, with a dash for each space.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, found := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := link.ReplaceAllString(strings.ToLower(strings.TrimSpace(found[1])), "]")
		all[strings.ReplaceAll(noSlug.ReplaceAllString(name, ""), " ", "-")] = true
	}
	return all
}
