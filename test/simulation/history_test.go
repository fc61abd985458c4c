package simulation

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "play the history of this seed, and print its steps")
	during  = flag.Duration("for", 0, "play histories of new seeds for so long")
	enough  = flag.Uint64("enough", 5, "end after so many histories that fail")
	first   = flag.Uint64("first", 100, "without -for, play so many histories")
	shorten = flag.Bool("shorten", true, "shorten a history that fails")
	spare   = flag.Uint64("spare", 0, "so many histories may fail, and are printed")
	file    = flag.String("story", "", "play the story of this file, a path from test/simulation, and print each change")
)

// TestHistories plays random histories, each of which follows from its seed: the first ones, and with -for those from a new seed on.
func TestHistories(t *testing.T) {
	from := uint64(0)
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "seed" && *seed == 0 || f.Name == "for" && *during <= 0 {
			t.Fatalf("-%s=%s: want a seed from 1 on, or a time such as 10m", f.Name, f.Value)
		}
	})
	switch {
	case *seed != 0:
		if fault := playHistory(t, *seed); fault != "" {
			t.Error(fault)
		}
		return
	case *during != 0:
		from = rand.Uint64() >> 24
	}
	begun := time.Now()
	var played, failed atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				for failed.Load() < *enough {
					n := played.Add(1)
					if *during == 0 && n > *first || *during > 0 && time.Since(begun) > *during {
						played.Add(^uint64(0))
						return
					}
					if fault := playHistory(t, from+n); fault != "" {
						if failed.Add(1) > *spare {
							t.Error(fault)
						} else {
							t.Log(fault)
						}
					}
				}
			})
		}
	})
	took := time.Since(begun)
	t.Logf("%d histories of %d steps, from seed %d on, in %v: %.1f a second; %d failed\n%v of virtual time, %d changes of objects\nso often was each promise judged: %s",
		played.Load(), stepsOfHistory, from+1, took.Round(time.Second), float64(played.Load())/took.Seconds(), failed.Load(),
		time.Duration(virtual.Load()).Round(time.Hour), changes.Load(), strings.Join(exercised(), ", "))
}

// stepsOfHistory is how many steps a history has.
const stepsOfHistory = 30

// mostPlays and longest bound how often, and for how long, a story that fails is played to shorten it.
const (
	mostPlays = 200
	longest   = 3 * time.Minute
)

// playHistory plays the history of a seed, and returns how it fails, or "".
func playHistory(t *testing.T, from uint64) (fault string) {
	t.Helper()
	steps := history(from, stepsOfHistory)
	if *seed != 0 {
		t.Log("\n" + strings.Join(steps, "\n"))
	}
	skipped, _, err := playSteps(t, from, steps)
	switch {
	case err == nil:
		return ""
	case !*shorten:
		return fmt.Sprintf("seed %d: %v", from, err)
	}
	promise, plays, begun := promiseOf(err), 0, time.Now()
	fails := func(steps []string) bool {
		_, _, err := playSteps(t, from, steps)
		plays++
		return promiseOf(err) == promise
	}
	short := withoutSkipped(steps, skipped, fails)
	short = shrink(short, func(steps []string) bool { return plays < mostPlays && time.Since(begun) < longest && fails(steps) })
	skipped, _, _ = playSteps(t, from, short)
	short = withoutSkipped(short, skipped, fails)
	_, state, again := playSteps(t, from, short)
	return fmt.Sprintf("seed %d: %v\n\nShortened from %d steps to %d, which fail with %v\n%s\nAs a story for testdata:\n\n%s\n", from, err, len(steps), len(short), again, state, strings.Join(short, "\n"))
}

// withoutSkipped leaves out the steps that do nothing, if the story fails without them, too: in a file, they are errors.
func withoutSkipped(steps []string, skipped map[string]bool, fails func([]string) bool) []string {
	without := slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return skipped[step] })
	if len(without) < len(steps) && fails(without) {
		return without
	}
	return steps
}

// promiseOf is the promise that was broken.
func promiseOf(err error) string {
	var b broken
	if errors.As(err, &b) {
		return b.promise.String()
	}
	if err != nil {
		return "other"
	}
	return ""
}

// playSteps also returns the steps that did nothing each time, and, if the story fails, the tables around the step at which it does.
func playSteps(t *testing.T, seed uint64, steps []string) (skipped map[string]bool, state string, err error) {
	t.Helper()
	defer func() { // controller-runtime leaves goroutines behind where caches were never filled
		if fault := recover(); fault != nil && !strings.Contains(fmt.Sprint(fault), "blocked goroutines remain") {
			panic(fault)
		}
	}()
	times := map[string]int{}
	for _, step := range steps {
		times[step]++
	}
	skipped = map[string]bool{}
	_, err = inBubble(t, seed, strings.Join(steps, "\n"), map[any]any{stateBefore{}: &state, random{}: func(step string) {
		times[step]--
		skipped[step] = times[step] == 0
	}})
	return skipped, state, err
}

// TestOne plays one story, and prints each change of an object.
func TestOne(t *testing.T) {
	if *file == "" {
		t.Skip("for go test -story=FILE")
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		t.Fatal(err)
	}
	told, err := inBubble(t, 1, string(text), map[any]any{tracing{}: t.Output(), random{}: func(step string) { t.Logf("%s: there is nothing to do", step) }})
	t.Log("\n" + told)
	if err != nil {
		t.Error(err)
	}
}

// TestShrink: what is left is what the story needs to fail, with as few clusters.
func TestShrink(t *testing.T) {
	steps := []string{"clusters 4 peer-timeout=1m", "member1: export foo", "wait 1s", "member4: export foo", "member2: export foo", "wait 5m", "settle"}
	fails := func(steps []string) bool {
		return slices.Contains(steps, "member1: export foo") && slices.Contains(steps, "wait 5m") && steps[len(steps)-1] == "settle"
	}
	want := []string{"clusters 2 peer-timeout=1m", "member1: export foo", "wait 5m", "settle"}
	if got := shrink(steps, fails); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
