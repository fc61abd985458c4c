package screen

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestSVG(t *testing.T) {
	picture := string(SVG("kubectl multicluster status", "\x1b[32mok\x1b[0m <&>\n  a long line that is wrapped", 20))
	for _, want := range []string{
		`<tspan class="g">ok</tspan> &lt;&amp;&gt;`, "  a long line that<", "    is wrapped<", "<title>kubectl multicluster status</title>",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in\n%s", want, picture)
		}
	}
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A word without a space is cut, and each line makes progress.
func TestWrapLongWord(t *testing.T) {
	lines := wrap(strings.Repeat("x", 100), 30)
	if len(lines) != 4 || strings.Join(lines, "") == "" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
