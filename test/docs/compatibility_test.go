package main

import (
	"regexp"
	"slices"
	"testing"
)

// TestCompatibilityIsOfTheVersions: the table of docs/compatibility.md has the versions that CI tests, by the Makefile and the modules that
// pin Kubernetes. It names the oldest ones.
func TestCompatibilityIsOfTheVersions(t *testing.T) {
	makefile := string(readFile(t, "Makefile"))
	want := []string{
		"kubernetes " + only(t, `k8s\.io/kubernetes (v\S+)`, string(readFile(t, "test/kube/oldest/go.mod"))),
		"kubernetes " + only(t, `k8s\.io/kubernetes (v\S+)`, string(readFile(t, "test/kube/programs/go.mod"))),
		"coredns " + only(t, `(?m)^COREDNS_VERSION \?= (\S+)$`, makefile),
	}
	for _, older := range regexp.MustCompile(`coredns=(v\S+)`).FindAllStringSubmatch(only(t, `(?m)^COMPAT := (.*)$`, makefile), -1) {
		want = append(want, "coredns "+older[1])
	}
	text := string(readFile(t, "docs/compatibility.md"))
	var got []string
	for _, row := range regexp.MustCompile(`(?m)^(kubernetes|coredns) +(v\S+) +[1-9]\d*$`).FindAllStringSubmatch(text, -1) {
		got = append(got, row[1]+" "+row[2])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/compatibility.md has %q, want %q: run `make compat-results`", got, want)
	}
	for _, oldest := range []string{`\| Kubernetes \| (\S+) and later`, `\| CoreDNS \| (\S+) and later`} {
		version := only(t, oldest, text)
		if !slices.ContainsFunc(want, func(tested string) bool {
			return regexp.MustCompile(` v` + regexp.QuoteMeta(version) + `(\.|$)`).MatchString(tested)
		}) {
			t.Errorf("docs/compatibility.md says %s and later, which is not tested", version)
		}
	}
}

// only is what the pattern's group matches in the text.
func only(t *testing.T, pattern, text string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no %s", pattern)
	}
	return found[1]
}
