package multicluster

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/google/go-cmp/cmp"
)

// README.md is the manual: it lists exactly what exists. test/dns starts its Corefiles
// with the real CoreDNS.

func readme(t *testing.T) string {
	t.Helper()
	return source(t, "README.md")
}

func source(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// all is the first group of each match, sorted, once.
func all(pattern, text string) []string {
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[match[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func TestReadmeHasTheSectionsOfAManPage(t *testing.T) {
	at := 0
	for _, section := range []string{"Name", "Description", "Syntax", "Metrics", "Ready", "Examples", "Bugs", "See Also"} {
		next := strings.Index(readme(t)[at:], "\n## "+section+"\n")
		if next < 0 {
			t.Fatalf("no section %q, or not in its place", section)
		}
		at += next
	}
}

func TestReadmeListsEachDirective(t *testing.T) {
	want := slices.Sorted(maps.Keys(directives))
	_, syntax, _ := strings.Cut(readme(t), "multicluster [ZONES...] {\n")
	syntax, described, _ := strings.Cut(syntax, "}\n")
	described, _, _ = strings.Cut(described, "\n## ")
	if diff := cmp.Diff(want, all(`(?m)^ +([a-z_]+)`, syntax)); diff != "" {
		t.Errorf("in the syntax: %s", diff)
	}
	if diff := cmp.Diff(want, all("(?m)^\\* `([a-z_]+)`", described)); diff != "" {
		t.Errorf("described below it: %s", diff)
	}
}

func TestReadmeListsEachMetric(t *testing.T) {
	want := all(`(?:gauge\(|opts\(|Name: +|pluginName, )"([a-z_]+)"`, source(t, "metrics.go"))
	if diff := cmp.Diff(want, all("(?m)^\\* `coredns_multicluster_([a-z_]+)\\{", readme(t))); diff != "" {
		t.Error(diff)
	}
}

func TestReadmeListsEachLabelOfTheMetadata(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(maps.Keys(metadataOf)), all("(?m)^\\* `(multicluster/[a-z-]+)`", readme(t))); diff != "" {
		t.Error(diff)
	}
}

func TestReadmeExamplesAreParsed(t *testing.T) {
	blocks := 0
	for _, match := range regexp.MustCompile("(?ms)^~~~ corefile\n(.*?)^~~~$").FindAllStringSubmatch(readme(t), -1) {
		servers, err := caddyfile.Parse("README.md", strings.NewReader(match[1]), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, server := range servers {
			c := &caddy.Controller{Dispenser: caddyfile.NewDispenserTokens("README.md", server.Tokens[pluginName]), ServerBlockKeys: server.Keys}
			if conf, err := parse(c); err != nil || len(conf.zones) == 0 {
				t.Errorf("zones %v, %v, of:\n%s", conf.zones, err, match[1])
			}
			blocks++
		}
	}
	if blocks == 0 {
		t.Error("no example at all")
	}
}
