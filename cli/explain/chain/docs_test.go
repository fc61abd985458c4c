package chain

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each cause has a row or a heading in the troubleshooting page, and its link points to a heading that exists.
func TestCausesAreInTheDocuments(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	for id, link := range causes {
		if !strings.Contains(string(page), "`"+id+"`") {
			t.Errorf("docs/troubleshooting.md does not contain `%s`", id)
		}
		file, anchor, _ := strings.Cut(link, "#")
		text, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Fatal(err)
		}
		if !anchors(string(text))[anchor] {
			t.Errorf("%s: docs/%s has no heading #%s", id, file, anchor)
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are those that GitHub gives to headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(text, -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}
