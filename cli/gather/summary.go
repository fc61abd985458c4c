package gather

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// maxLines bounds a list of the summary.
const maxLines = 100

// summary is the text that people read first: what is wrong comes first.
func (b *bundle) summary(all []*clusters.Cluster, folders []string, checked check.Report, o Options) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "# %s\n\nGathered at %s by kubectl-multicluster %s.\n", output.Count(len(all), "cluster"), o.Now().UTC().Format(time.RFC3339), o.Version)
	s.WriteString("\n## What is wrong\n\n")
	var wrong, warnings, unknown []string
	for _, c := range checked.Checks {
		line := fmt.Sprintf("**%s**, %s: %s", c.ID, plain(c.Cluster), plain(c.Detail))
		switch c.Result {
		case check.Failed:
			wrong = append(wrong, line)
		case check.Warning:
			warnings = append(warnings, line)
		case check.Unknown:
			unknown = append(unknown, line)
		}
	}
	lines(&s, wrong, "No check failed.")
	s.WriteString("\n## Warnings\n\n")
	lines(&s, warnings, "None.")
	s.WriteString("\n## What could not be read\n\n")
	for _, text := range b.errors {
		unknown = append(unknown, plain(text))
	}
	lines(&s, unknown, "Everything was read.")
	s.WriteString("\n## What is left out\n\n")
	lines(&s, b.withheld, "No file. Values of Secrets, private keys, tokens and plain values of environment variables are replaced.")
	s.WriteString("\n## Clusters\n\n| context | folder |\n|---|---|\n")
	for i, c := range all {
		fmt.Fprintf(&s, "| %s | %s |\n", plain(c.Context), folders[i])
	}
	s.WriteString("\n## Files\n\n")
	var files []string
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		files = append(files, fmt.Sprintf("%s (%d bytes)", name, len(b.files[name])))
	}
	list := files[:min(len(files), 500)]
	for _, text := range list {
		fmt.Fprintf(&s, "- %s\n", text)
	}
	return s.String()
}

// plain is a text of a cluster without what Markdown would act on.
func plain(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "[", `\[`).Replace(output.Clean(text))
}

func lines(s *strings.Builder, all []string, none string) {
	if len(all) == 0 {
		fmt.Fprintf(s, "%s\n", none)
	}
	for _, text := range all[:min(len(all), maxLines)] {
		fmt.Fprintf(s, "- %s\n", text)
	}
	if more := len(all) - maxLines; more > 0 {
		fmt.Fprintf(s, "- and %d more\n", more)
	}
}
