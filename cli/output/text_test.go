package output

import (
	"strings"
	"testing"
)

// Texts of other clusters must not move the cursor, and must not fill the terminal.
func TestClean(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"plain, ünïcode", "plain, ünïcode"},
		{"a\x1b[31mb\nc\td", "a [31mb c d"},
		{"\u202eright to left", " right to left"},
		{"\xff", " "},
	} {
		if got := Clean(c.text); got != c.want {
			t.Errorf("Clean(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	if got := len([]rune(Clean(strings.Repeat("ä", 5000)))); got != maxText {
		t.Errorf("a long text has %d characters, want %d", got, maxText)
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"member1":            "member1",
		"":                   "''",
		"a b":                "'a b'",
		"it's":               `'it'\''s'`,
		"$(reboot)":          "'$(reboot)'",
		"arn:aws:eks:eu/one": "arn:aws:eks:eu/one",
	} {
		if got := Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestList(t *testing.T) {
	if got := List([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Error(got)
	}
}
