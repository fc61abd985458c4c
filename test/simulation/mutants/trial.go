package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// trial builds tests with mutants, and plays them.
type trial struct {
	root, dir string
	last      map[string]finder
	quick     bool // play only what found a mutant the last time
}

func newTrial(root string, last map[string]finder, quick bool) (*trial, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	return &trial{root, dir, last, quick}, err
}

func (t *trial) remove() { _ = os.RemoveAll(t.dir) }

// limit is for tests that a mutant lets run without an end. All stories take a fraction of it, on a machine that does nothing else: so a story that does
// not end is played once more, alone.
const limit = 10 * time.Minute

// try returns what finds a mutant: what did so the last time is played first.
func (t *trial) try(ctx context.Context, m *mutant) (by finder, err error) {
	program, err := t.build(ctx, m)
	if err != nil {
		return finder{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(program)) }()
	var plays [][]string
	switch last := t.last[m.name]; last.kind {
	case "story":
		plays = append(plays, []string{"-test.run=^TestStories$/^" + last.which + "$"})
	case "seed":
		plays = append(plays, []string{"-test.run=^TestHistories$", "-seed=" + last.which, "-shorten=false"})
	}
	if !t.quick {
		plays = append(plays, []string{"-test.run=^TestStories$"}, []string{"-test.run=^TestHistories$", "-first=25", "-enough=1", "-shorten=false"})
	}
	for _, flags := range plays {
		if by, err = t.play(ctx, program, flags); err != nil || by != (finder{}) {
			return by, err
		}
	}
	return finder{}, nil
}

// build makes the tests with a mutant.
func (t *trial) build(ctx context.Context, m *mutant) (program string, err error) {
	wrong, err := m.files(t.root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range wrong {
		copied := filepath.Join(t.dir, m.name+"-"+strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(t.root, file)] = copied
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.dir, m.name+".json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(t.dir, m.name+".test")
	build := exec.CommandContext(ctx, "go", "test", "-overlay="+path, "-vet=off", "-ldflags=-w", "-c", "-o", program, "./test/simulation")
	build.Dir = t.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it cannot be built: %w\n%s", err, out)
	}
	return program, nil
}

// play runs tests. The zero finder means that they pass.
func (t *trial) play(ctx context.Context, program string, flags []string) (finder, error) {
	limited, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	play := exec.CommandContext(limited, program, append(flags, "-test.failfast", "-test.timeout="+limit.String())...)
	play.Dir = filepath.Join(t.root, "test/simulation")
	out, err := play.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return finder{}, ctx.Err()
	case err == nil:
		return finder{}, nil
	}
	by := finderOf(string(out))
	if alone := []string{"-test.run=^TestStories$/^" + by.which + "$"}; by.kind == "story" && strings.Contains(by.how, "test timed out") && !slices.Equal(flags, alone) {
		return t.play(ctx, program, alone)
	}
	if by.kind != "" {
		return by, nil
	}
	return finder{"story", "any", short("no end, or a panic: " + tail(string(out)))}, nil
}

// tail is the end of a text.
func tail(text string) string { return text[max(0, len(text)-300):] }
