package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/tabwriter"
)

// writeResults writes the tables of the scenarios' reports, below a line that contains the machine
// and the options.
func writeResults(ctx context.Context, path, report, how string) error {
	lines, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%d cores, %s, %s, %s; %s\n\n%s", runtime.NumCPU(), processor(), runtime.Version(), strings.TrimSpace(string(commit)), how,
		tables(string(lines)))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// tables are that of the failover times, and that of the scenarios. Each line of a report is what and how much, with a tab between: a
// scenario, and below it what was measured in it; failover times have a mark, «> ».
func tables(report string) string {
	var failover, scenarios, title string
	for line := range strings.Lines(report) {
		if measured, ok := strings.CutPrefix(line, "> "); ok {
			failover += title + "  " + measured
			title = ""
			continue
		}
		scenarios += line
		if !strings.HasPrefix(line, " ") {
			title, _, _ = strings.Cut(line, "\t")
			title += "\t\n"
		}
	}
	if failover != "" {
		failover = aligned("failover times\t\n"+failover) + "\n"
	}
	return failover + aligned("scenario\ttime\n"+scenarios)
}

// aligned is a table of two columns, with no blanks at a line's end.
func aligned(lines string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, lines)
	_ = table.Flush() // a Builder takes everything
	return blanks.ReplaceAllString(text.String(), "")
}

var blanks = regexp.MustCompile(`(?m) +$`)

// processor is the model's name, as Linux gives it.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
