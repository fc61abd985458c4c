package watch

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"
	"unicode/utf8"
)

// Problem is a part of an object that cannot be served. Only the records of that part are missing.
// Its text contains no position in a list: a problem that moves is the same problem.
type Problem struct {
	Field  string // a fixed word, for the metric's label
	Detail string // what was found, and what is expected
	Whole  bool   // nothing of the object can be served
}

// maxProblems is how many problems of one object are described. An object can have a megabyte of them.
const maxProblems = 8

// problem notes a problem of the object, once.
func (t *trimmed[T]) problem(field, format string, args ...any) {
	if len(t.problems) == maxProblems {
		t.more++
		return
	}
	p := Problem{Field: field, Detail: fmt.Sprintf(format, args...), Whole: t.value == nil}
	if !slices.Contains(t.problems, p) {
		t.problems = append(t.problems, p)
	}
}

// described returns the problems, and one more that counts the problems without a description.
func (t *trimmed[T]) described() []Problem {
	if t.more == 0 {
		return t.problems
	}
	return append(t.problems, Problem{Field: "more", Detail: fmt.Sprintf("%d more problems of this object are not described", t.more)})
}

// maxText limits the text of an object that is shown, because its author decides on its length.
const maxText = 80

// clip shortens a text from an object.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}

// reported records which problems of an object were reported. It compares them by a hash of the
// set, because there can be many such objects.
type reported struct {
	set  uint64
	told time.Time
}

var hashSeed = maphash.MakeSeed()

// hashSet returns a hash that does not depend on the order of the problems.
func hashSet(problems []Problem) (sum uint64) {
	for _, p := range problems {
		sum += maphash.Comparable(hashSeed, p)
	}
	return sum
}
