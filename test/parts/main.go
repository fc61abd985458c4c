// Command parts runs parts of CI, which parts.go lists:
//
//	go run ./test/parts [-base COMMIT] [-lint PATH] GROUP|NAME|check|report...
//
// A part that has passed on this machine with the same inputs is not run again: inputs.go tells what these are, and stamps.go where it
// is noted. CI_FULL=1 runs all of them, in their full form. check runs the linters and the quick tests of what has changed since a commit.
// report prints what each part took since .ci/run began.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// full asks for the full form of all parts: also tests read the variable (test/kube, Full).
var full = os.Getenv("CI_FULL") != ""

func main() {
	base := flag.String("base", "", "commit that check compares with; where the branch left origin/main unless given")
	linter := flag.String("lint", "golangci-lint", "path of the linter, for check")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *base, *linter, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, base, linter string, names []string) error {
	switch {
	case len(names) == 0:
		return fmt.Errorf("want check, report, or one of %s", strings.Join(known(), ", "))
	case names[0] == "check":
		return check(ctx, base, linter)
	case names[0] == "report":
		return report(os.Stdout)
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	return runAll(ctx, chosen)
}

// known are the names that choose accepts: groups and parts.
func known() (names []string) {
	for _, p := range parts {
		names = append(names, p.group, p.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// choose returns the parts that have the names, or are in groups that have them.
func choose(names []string) (chosen []part, err error) {
	for _, name := range names {
		before := len(chosen)
		for _, p := range parts {
			if p.name == name || p.group == name {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no part %q: there are %s", name, strings.Join(known(), ", "))
		}
	}
	return chosen, nil
}
