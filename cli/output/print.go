package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Format is the value of -o.
type Format string

// The formats of a report.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Formats lists them for help texts.
const Formats = "table, json or yaml"

// ParseFormat returns the format of the flag -o.
func ParseFormat(text string) (Format, error) {
	switch f := Format(text); f {
	case Table, JSON, YAML:
		return f, nil
	}
	return "", fmt.Errorf("-o %s: expected %s", Quote(text), Formats)
}

// Problem is one thing that is wrong. Programs read the field ID. People read the rest.
type Problem struct {
	// ID names the kind of the problem in CamelCase. It does not change between versions.
	ID string `json:"id"`
	// What is one or two sentences: what is wrong, and with which object.
	What string `json:"what"`
	// Fix are commands, one in a line, that can be pasted into a shell. Empty if no command fixes it.
	Fix []string `json:"fix,omitempty"`
	// Advice is what to do where no command does it.
	Advice string `json:"advice,omitempty"`
	// Link is the place in the documents.
	Link string `json:"link,omitempty"`
}

// Docs is the address of the documents.
const Docs = "https://github.com/clusterset-dns/multicluster/blob/main/docs/"

// Encode writes a report as JSON or YAML.
func Encode(w io.Writer, format Format, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err == nil && format == YAML {
		text, err = yaml.Marshal(report)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(text), "\n"))
	return err
}

// Painter colours words on a terminal.
type Painter bool

// NewPainter returns a painter that paints if w is a terminal. The variables NO_COLOR and
// CLICOLOR_FORCE switch colours off and on, as in other programs.
func NewPainter(w io.Writer) Painter {
	if os.Getenv("NO_COLOR") != "" {
		return false
	}
	if force := os.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return Painter(IsTerminal(w))
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Good is green, Bad red, Weak yellow, Strong bold and Faint grey.
func (p Painter) Good(text string) string   { return p.paint("32", text) }
func (p Painter) Bad(text string) string    { return p.paint("31", text) }
func (p Painter) Weak(text string) string   { return p.paint("33", text) }
func (p Painter) Strong(text string) string { return p.paint("1", text) }
func (p Painter) Faint(text string) string  { return p.paint("2", text) }

func (p Painter) paint(code, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Cell is a word of a table, and how it is painted: Painter.Good and so on, or nil.
type Cell struct {
	Text  string
	Paint func(string) string
}

// Rows writes a table with a header. Columns are aligned, as in kubectl. Colours do not change the
// alignment, because each cell is padded before it is painted.
func Rows(w io.Writer, header []string, rows [][]Cell) error {
	width := make([]int, len(header))
	for i, title := range header {
		width[i] = len([]rune(title))
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(Clean(cell.Text))))
		}
	}
	tabs := printers.GetNewTabWriter(w)
	head := make([]Cell, len(header))
	for i, title := range header {
		head[i] = Cell{Text: title}
	}
	for _, row := range append([][]Cell{head}, rows...) {
		if _, err := fmt.Fprintln(tabs, line(row, width)); err != nil {
			return err
		}
	}
	return tabs.Flush()
}

func line(row []Cell, width []int) string {
	var b strings.Builder
	for i, cell := range row {
		text := Clean(cell.Text)
		pad := strings.Repeat(" ", width[i]-len([]rune(text)))
		if cell.Paint != nil {
			text = cell.Paint(text)
		}
		if i == len(row)-1 {
			b.WriteString(text)
			break
		}
		b.WriteString(text + pad + "   ")
	}
	return b.String()
}

// Problems writes problems for people: what, the fix and the link, in that order.
func Problems(w io.Writer, p Painter, all []Problem) error {
	var b strings.Builder
	for _, one := range all {
		fmt.Fprintf(&b, "\n%s  %s\n", p.Bad(one.ID), Clean(one.What))
		if one.Advice != "" {
			fmt.Fprintf(&b, "  %s\n", Clean(one.Advice))
		}
		for _, command := range one.Fix {
			fmt.Fprintf(&b, "    %s\n", p.Strong(printable(command)))
		}
		if one.Link != "" {
			fmt.Fprintf(&b, "  %s\n", p.Faint(one.Link))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
