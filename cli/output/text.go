// Package output prints what commands found: tables for people, JSON and YAML for programs.
package output

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// maxText bounds a text of another cluster, in characters.
const maxText = 1000

// Clean makes a text from outside safe for a terminal: control characters, which could move the
// cursor or change colours, become spaces, and the text is cut at 1000 characters.
func Clean(text string) string {
	text = printable(text)
	if letters := []rune(text); len(letters) > maxText {
		return string(letters[:maxText-1]) + "…"
	}
	return text
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// List joins names with commas. It prints at most the given number of them, and how many there are more.
func List(names []string, limit int) string {
	shown := make([]string, 0, min(limit, len(names)))
	for _, name := range names[:min(limit, len(names))] {
		shown = append(shown, Clean(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Count prints a number with a noun: "1 cluster", "2 clusters".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+$`)

// Quote quotes a word for a POSIX shell, if that is necessary.
func Quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(printable(word), "'", `'\''`) + "'"
}

// Command joins words to a command that can be pasted into a POSIX shell.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// Kubectl is the kubectl command for a context.
func Kubectl(context string, words ...string) string {
	return Command(append([]string{"kubectl", "--context", context}, words...)...)
}

// CSV joins names to the value of a flag that takes a list, such as --contexts. A name with a comma is
// quoted as in RFC 4180.
func CSV(names ...string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(names) // a Builder returns no errors
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
