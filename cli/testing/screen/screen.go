// Package screen draws the output of a terminal as an SVG picture, for the documents.
package screen

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

const (
	fontSize   = 13
	charWidth  = 7.83 // of the monospaced fonts below at this size
	lineHeight = 18
	margin     = 16
)

// styles are those that output.Painter uses.
var styles = map[string]string{"1": "b", "2": "f", "31": "r", "32": "g", "33": "y"}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// SVG draws a command and its output. Longer lines than the given number of columns are wrapped.
func SVG(command, text string, columns int) []byte {
	lines := wrap("$ "+command+"\n\n"+strings.TrimRight(text, "\n"), columns)
	width, height := float64(columns)*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(command))
	fmt.Fprintf(&b, "<style>text{font:%dpx ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d6dbe0;white-space:pre}"+
		".b{font-weight:bold;fill:#fff}.f{fill:#8b949e}.r{fill:#ff7b72}.g{fill:#56d364}.y{fill:#e3b341}</style>\n", fontSize)
	b.WriteString(`<rect width="100%" height="100%" rx="8" fill="#161b22"/>` + "\n")
	class := ""
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">`, margin, margin+fontSize+i*lineHeight)
		class = spans(&b, line, class)
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// spans writes a line. It returns the style at its end, with which the next line begins.
func spans(b *strings.Builder, line, class string) string {
	write := func(text string) {
		switch {
		case text == "":
		case class == "":
			b.WriteString(html.EscapeString(text))
		default:
			fmt.Fprintf(b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
		}
	}
	at := 0
	for _, code := range escape.FindAllStringSubmatchIndex(line, -1) {
		write(line[at:code[0]])
		class = styles[line[code[2]:code[3]]]
		at = code[1]
	}
	write(line[at:])
	return class
}

// wrap cuts lines at the last space before the given number of columns, and indents what follows as the
// line is. Escape sequences have no width.
func wrap(text string, columns int) []string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		for {
			cut := cutAt(line, columns)
			if cut < 0 {
				break
			}
			lines = append(lines, line[:cut])
			line = indent + "  " + strings.TrimLeft(line[cut:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// cutAt is where a line must be cut, or -1 if it fits.
func cutAt(line string, columns int) int {
	column, space, inside := 0, -1, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		default:
			if column++; column > columns {
				if space > 0 {
					return space
				}
				return i
			}
			if r == ' ' && strings.TrimSpace(line[:i]) != "" {
				space = i
			}
		}
	}
	return -1
}
