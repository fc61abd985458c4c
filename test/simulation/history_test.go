package simulation

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "play the history of this seed")
	file     = flag.String("story", "", "play the story of this file, and print each change")
	last     = flag.Duration("for", 0, "play histories for so long; 0 for a few")
)

// TestHistories plays random histories. Each follows from its seed.
func TestHistories(t *testing.T) {
	const few = 20
	if *seedFlag != 0 {
		playHistory(t, *seedFlag)
		return
	}
	begun, from := time.Now(), rand.Uint64()>>24
	var n atomic.Uint64
	t.Run("all", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("some", func(t *testing.T) {
				t.Parallel()
				for !t.Failed() && (n.Load() < few || time.Since(begun) < *last) {
					playHistory(t, from+n.Add(1))
				}
			})
		}
	})
	t.Logf("%d histories from seed %d in %v", n.Load(), from, time.Since(begun))
}

// stepsOfHistory is how many steps a history has.
const stepsOfHistory = 30

func playHistory(t *testing.T, seed uint64) bool {
	t.Helper()
	t.Logf("seed %d", seed)
	steps := history(seed, stepsOfHistory)
	if *seedFlag != 0 {
		t.Log("\n" + strings.Join(steps, "\n"))
	}
	err := playSteps(t, seed, steps)
	if err == nil {
		return true
	}
	promise := promiseOf(err)
	begun := time.Now()
	short := shrink(steps, func(steps []string) bool {
		return time.Since(begun) < 30*time.Second && promiseOf(playSteps(t, seed, steps)) == promise
	})
	t.Errorf("seed %d: %v\n\nShortened from %d steps to %d, which fail with %v:\n\n%s\n", seed, err, len(steps), len(short), playSteps(t, seed, short), strings.Join(short, "\n"))
	return false
}

// promiseOf is the promise that was broken.
func promiseOf(err error) string {
	var b broken
	if errors.As(err, &b) {
		return b.promise
	}
	if err != nil {
		return "other"
	}
	return ""
}

func playSteps(t *testing.T, seed uint64, steps []string) (err error) {
	t.Helper()
	defer func() { // controller-runtime leaves goroutines behind where caches were never filled
		if fault := recover(); fault != nil && !strings.Contains(fmt.Sprint(fault), "blocked goroutines remain") {
			panic(fault)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		_, err = play(context.WithValue(t.Context(), random{}, true), seed, strings.Join(steps, "\n"))
	})
	return err
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
	var told string
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithValue(t.Context(), tracing{}, t.Output())
		told, err = play(context.WithValue(ctx, random{}, true), 1, string(text))
	})
	t.Log("\n" + told)
	if err != nil {
		t.Error(err)
	}
}
