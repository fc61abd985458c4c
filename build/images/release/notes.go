package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

var heading = regexp.MustCompile(`(?m)^## \[?v?([^\]\s]+)\]?.*$`)

// changes returns the section of the version in the changelog. A version with a suffix, such as v0.1.0-rc.1, can be under Unreleased.
func (r *release) changes(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // CHANGELOG.md
	if err != nil {
		return "", err
	}
	sections := map[string]string{}
	found := heading.FindAllSubmatchIndex(text, -1)
	for i, at := range found {
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		sections[string(text[at[2]:at[3]])] = strings.TrimSpace(string(text[at[1]:end]))
	}
	version, suffix, _ := strings.Cut(strings.TrimPrefix(r.version, "v"), "-")
	names := []string{strings.TrimPrefix(r.version, "v")}
	if suffix != "" {
		names = append(names, version, "Unreleased")
	}
	for _, name := range names {
		if section := sections[name]; section != "" {
			return "# multicluster " + r.version + "\n\n" + section + "\n", nil
		}
	}
	return "", fmt.Errorf("%s has no section %q with changes: rename the heading Unreleased to it, with the date", path, names[0])
}

// imageNotes lists the images by their digests.
func imageNotes(values archives.Values) string {
	var text strings.Builder
	text.WriteString("\n## Images\n\n")
	for _, program := range archives.Programs {
		_, _ = fmt.Fprintf(&text, "    %s@%s\n", values[program].Repository, values[program].Digest)
	}
	text.WriteString("\nThe chart has these digests. CONTRIBUTING.md describes how to verify signatures and checksums.\n")
	return text.String()
}
