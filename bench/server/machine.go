package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is what the figures were measured with.
type machine struct {
	processor, server, commit, generator string
}

func look(ctx context.Context, program string) (machine, error) {
	version, err := exec.CommandContext(ctx, program, "-version").Output()
	if err != nil {
		return machine{}, fmt.Errorf("ask CoreDNS for its version: %w: run `make bench-server`", err)
	}
	commit, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("an unknown commit")
	}
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	m := machine{processor: processor(string(cpuinfo)), server: release(string(version)), commit: strings.TrimSpace(string(commit))}
	return m, err
}

func processor(cpuinfo string) string {
	_, rest, _ := strings.Cut(cpuinfo, "model name")
	line, _, _ := strings.Cut(rest, "\n")
	if _, name, ok := strings.Cut(line, ": "); ok {
		return name
	}
	return runtime.GOARCH
}

// release makes one line of «CoreDNS-1.15.0», and a line with the platform, Go's version and the commit.
func release(version string) string {
	name, rest, _ := strings.Cut(version, "\n")
	fields := strings.Split(strings.TrimSpace(rest), ", ")
	return strings.Join(append([]string{strings.Replace(name, "-", " ", 1)}, fields[:min(2, len(fields))]...), ", ")
}

// text returns what was measured, how, and on which machine: the first lines of the results.
func (m machine) text(p plan) string {
	return fmt.Sprintf(`%d cores, %s; %s; %s; %s
everything on one machine, over UDP on loopback; a %s run: medians of %d rounds of %s, in which the answerers take turns
CPU per query is the server's own user and system time over the queries answered; no goal is judged by rounded figures
`, runtime.NumCPU(), m.processor, m.commit, m.server, m.generator, p.name, p.rounds, p.load)
}
