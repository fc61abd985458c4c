package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"
)

// writeResults makes the table of what the scenarios reported: lines of what and how long, with a tab between.
func writeResults(ctx context.Context, path, report string) error {
	lines, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--always").Output()
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d cores, %s, %s, %s; all clusters on this one machine\n\n", runtime.NumCPU(), processor(), runtime.Version(), strings.TrimSpace(string(commit)))
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "scenario\ttime\n%s", lines) // errors come with Flush
	if err := table.Flush(); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

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
