package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// finder is what has found a mutant: a story, or the history of a seed. The zero value is nothing.
type finder struct{ kind, which, how string }

func (f finder) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", f.kind, f.which, f.how), ": ")
}

var aFinder = regexp.MustCompile(`^    (story|seed) ([^\s:]+)(?:: (.*))?$`)

// readResults reads what found each mutant, by name, from a file that format wrote. There are none without the file.
func readResults(path string) map[string]finder {
	text, _ := os.ReadFile(path)
	results, name := map[string]finder{}, ""
	for _, line := range strings.Split(string(text), "\n") {
		if found := aFinder.FindStringSubmatch(line); found != nil {
			results[name] = finder{found[1], found[2], found[3]}
		} else {
			name, _, _ = strings.Cut(line, ":")
		}
	}
	return results
}

// format writes for each mutant its sentence and what found it, and what nothing found at the end.
func format(head string, mutants []*mutant, results map[string]finder) string {
	var found, missed strings.Builder
	by, part := map[string]int{}, ""
	for _, m := range mutants {
		f, is := results[m.name]
		if !is {
			fmt.Fprintf(&missed, "%s: %s\n    %s\n", m.name, m.says, m.why)
			continue
		}
		by[f.kind]++
		if m.part != part {
			part = m.part
			fmt.Fprintf(&found, "\n%s\n\n", part)
		}
		fmt.Fprintf(&found, "%s: %s\n    %s\n", m.name, m.says, f)
	}
	text := fmt.Sprintf("%s\n\n%d of %d mutants are found, %d of them by stories and %d by histories.\n", head, by["story"]+by["seed"], len(mutants), by["story"], by["seed"])
	if missed.Len() > 0 {
		text += "\nNot found:\n\n" + missed.String()
	}
	return text + found.String()
}

var (
	aStory  = regexp.MustCompile(`(?:--- FAIL: |\t)TestStories/([^\s:]+)`)
	aSeed   = regexp.MustCompile(`(?s)seed (\d+): (?:line \d+, "[^\n]*?": )?(.*)`)
	differs = regexp.MustCompile(`(?m)^\s+line \d+ is: .*$`)
	broken  = regexp.MustCompile(`(?s)\.txt: line \d+, "[^\n]*": (.*)`)
	fault   = regexp.MustCompile(`(?m)^(panic: .*)$`)
)

// finderOf reads from the output of a failed test what failed, and how.
func finderOf(out string) finder {
	var f finder
	if story := aStory.FindStringSubmatch(out); story != nil {
		f = finder{kind: "story", which: story[1]}
	} else if seed := aSeed.FindStringSubmatch(out); seed != nil {
		return finder{"seed", seed[1], short(seed[2])}
	}
	switch {
	case fault.MatchString(out):
		f.how = fault.FindStringSubmatch(out)[1]
	case broken.MatchString(out):
		f.how = broken.FindStringSubmatch(out)[1]
	default:
		f.how = differs.FindString(out)
	}
	f.how = short(f.how)
	return f
}

// short has the words of a text, at most so many bytes of it.
func short(text string) string {
	const most = 160
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
