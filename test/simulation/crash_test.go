package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A node is lost just before or after the n-th write that follows a step, at each step of a story. When the controller has started again, all is
// as the story has it.
func TestCrashAtEachWrite(t *testing.T) {
	for _, name := range []string{"users-addresses", "users-services", "derived-name-taken", "families"} {
		text, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for n := range 6 {
			for _, at := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s, %s write %d", name, at, n+1), func(t *testing.T) {
					t.Parallel()
					played, err := inBubble(t, 1, crashing(string(text), fmt.Sprintf("crash %s write %d", at, n+1)), map[any]any{random{}: skip})
					if err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(tablesOf(string(text)), tablesOf(played)); diff != "" {
						t.Errorf("(-without crashes +with them):\n%s", diff)
					}
				})
			}
		}
	}
}

// crashing is a story in which the controller crashes after each step that is followed by a wait, and starts again then. Where it does so in the
// story itself, that is enough.
func crashing(text, crash string) string {
	var steps []string
	runs, down := false, false
	for _, line := range strings.Split(text, "\n") {
		down = strings.HasSuffix(line, ": crash") || down && !strings.HasSuffix(line, ": start")
		if strings.HasPrefix(line, "member") && !runs && !down {
			steps = append(steps, "member1: "+crash)
		}
		runs = strings.HasPrefix(line, "member")
		if steps = append(steps, line); strings.HasPrefix(line, "wait ") && !down {
			steps = append(steps, "member1: start", "wait 1m")
		}
	}
	return strings.Join(steps, "\n")
}

// tablesOf is what the tables of a story show, without what a crash changes: ages, and how much was written and told.
func tablesOf(text string) (all []string) {
	step := ""
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "    ") {
			step = line
			continue
		}
		words := strings.Fields(line)
		switch step, _, _ := strings.Cut(step, " "); step {
		case "writes", "events":
			continue
		case "services":
			words = words[:len(words)-1]
		}
		all = append(all, step+": "+strings.Join(words, " "))
	}
	return all
}
