// Command mutants makes small wrong versions of the product, one at a time, and plays the stories and the first histories of test/simulation with
// each: the judges are worth what they find.
//
//	go run ./test/simulation/mutants [-list] [NAME or PART ...]
//
// The mutants are in the tables beside this file (*.txt), each with a sentence that says what is wrong. What found one the last time
// (docs/results/mutants.txt) is played first, then all stories, then histories. A mutant that nothing finds fails, unless its table has the reason.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// resultsFile has what found each mutant the last time.
const resultsFile = "docs/results/mutants.txt"

func main() {
	list := flag.Bool("list", false, "print the mutants, and what found them the last time")
	quick := flag.Bool("quick", false, "play only what found them the last time")
	results := flag.String("results", resultsFile, "the file with what found them the last time")
	write := flag.String("write", "", "write that file anew, with this first line")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *list, *quick, *results, *write, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, list, quick bool, path, head string, names []string) error {
	write := head != ""
	mutants, err := all()
	if err != nil {
		return err
	}
	chosen, err := choose(mutants, names)
	if err != nil {
		return err
	}
	last := readResults(path)
	if list {
		for _, m := range chosen {
			fmt.Printf("%s: %s: %s\n    %v\n", m.part, m.name, m.says, orNone(last[m.name]))
		}
		return nil
	}
	began := time.Now()
	t, err := newTrial(".", last, quick)
	if err != nil {
		return err
	}
	defer t.remove()
	found, err := t.all(ctx, chosen, func(m *mutant, by finder) { fmt.Printf("%s: %s\n    %v\n", m.name, m.says, orNone(by)) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("\n%d of %d mutants are found, in %v\n", len(found), len(chosen), took.Round(time.Second))
	var missed []string
	for _, m := range chosen {
		if last[m.name] = found[m.name]; found[m.name] == (finder{}) {
			delete(last, m.name)
			if m.why == "" {
				missed = append(missed, m.name)
			}
		}
	}
	if len(chosen) == len(mutants) {
		head += fmt.Sprintf(", in %v", took.Round(time.Minute))
	}
	if write {
		err = os.WriteFile(path, []byte(format(head, mutants, last)), 0o644)
	}
	if len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("nothing finds %s", strings.Join(missed, ", ")))
	}
	return err
}

func orNone(f finder) any {
	if f == (finder{}) {
		return "NOT found"
	}
	return f
}

// choose returns the mutants of some names or parts; all for none.
func choose(mutants []*mutant, names []string) (chosen []*mutant, err error) {
	if len(names) == 0 {
		return mutants, nil
	}
	for _, name := range names {
		some := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.name != name && m.part != name })
		if len(some) == 0 {
			return nil, fmt.Errorf("no mutant and no part has the name %s", name)
		}
		chosen = append(chosen, some...)
	}
	return chosen, nil
}

// all tries mutants, one on each core, and returns what found each. The errors are those of mutants that cannot be made.
func (t *trial) all(ctx context.Context, mutants []*mutant, tell func(*mutant, finder)) (map[string]finder, error) {
	var mu sync.Mutex
	var errs []error
	var running sync.WaitGroup
	found, next := map[string]finder{}, make(chan *mutant)
	for range runtime.NumCPU() {
		running.Go(func() {
			for m := range next {
				by, err := t.try(ctx, m)
				mu.Lock()
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
				case by != finder{}:
					found[m.name] = by
					tell(m, by)
				default:
					tell(m, by)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		select {
		case next <- m:
		case <-ctx.Done():
		}
	}
	close(next)
	running.Wait()
	return found, errors.Join(errs...)
}
