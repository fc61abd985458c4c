package table

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// Section is some rows under one heading.
type Section struct {
	Title string
	Rows  []Row
}

// Row has a figure of each answerer that was measured, and what is wanted of them.
type Row struct {
	Title  string
	Digits int // after the point
	Values map[Who]float64
	Goals  []Goal
}

// Goal is the highest value that is wanted: of ours divided by that of another answerer, or of ours alone where Of is empty.
type Goal struct {
	Of   Who
	Most float64
}

// reached is by the figures as they were measured: 1.004 does not reach 1.00.
func (g Goal) reached(r Row) bool { return g.value(r) <= g.Most }

func (g Goal) value(r Row) float64 {
	if g.Of == "" {
		return r.value(Ours)
	}
	return r.value(Ours) / r.value(g.Of)
}

func (r Row) value(who Who) float64 {
	if v, ok := r.Values[who]; ok {
		return v
	}
	return math.NaN()
}

// Write sets the sections as one table, and counts below it how many goals are reached.
func Write(out io.Writer, sections []Section) error {
	lines := [][]string{heading()}
	reached, goals := 0, 0
	for _, s := range sections {
		lines = append(lines, nil, []string{s.Title})
		for _, r := range s.Rows {
			lines = append(lines, append([]string{"  " + r.Title}, r.cells()...))
			goals += len(r.Goals)
			reached += r.reached()
		}
	}
	_, err := fmt.Fprintf(out, "%s\n%d of %d goals are reached.\n", align(lines), reached, goals)
	return err
}

// align sets the first column and those with goals to the left, so that ratios stand below each other, and the figures to the right. A
// line of one cell is a title, and as wide as it is.
func align(lines [][]string) string {
	var width []int
	for _, cells := range lines {
		for i, cell := range cells {
			if i == len(width) {
				width = append(width, 0)
			}
			if len(cells) > 1 {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var text strings.Builder
	for _, cells := range lines {
		var line strings.Builder
		for i, cell := range cells {
			if i == 0 || i > len(everybody) {
				_, _ = fmt.Fprintf(&line, "%-*s  ", width[i], cell)
			} else {
				_, _ = fmt.Fprintf(&line, "%*s  ", width[i], cell)
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

func heading() []string {
	cells := []string{""}
	for _, who := range everybody {
		cells = append(cells, string(who))
	}
	cells = append(cells, "goal")
	for _, who := range everybody[1:] {
		cells = append(cells, "ours/"+string(who))
	}
	return cells
}

func (r Row) reached() (count int) {
	for _, g := range r.Goals {
		if g.reached(r) {
			count++
		}
	}
	return count
}

// cells are the figures, and ours divided by each other's, with the goal and whether it is reached beside what it is of.
func (r Row) cells() (cells []string) {
	for _, who := range everybody {
		cells = append(cells, figure(r.value(who), r.Digits))
	}
	cells = append(cells, r.goal("", r.Digits))
	for _, who := range everybody[1:] {
		ratio := figure(r.value(Ours)/r.value(who), 2)
		if goal := r.goal(who, 2); goal != "" {
			ratio = strings.TrimLeft(ratio+" "+goal, " ")
		}
		cells = append(cells, ratio)
	}
	return cells
}

func (r Row) goal(of Who, digits int) string {
	for _, g := range r.Goals {
		switch {
		case g.Of != of:
		case g.reached(r):
			return fmt.Sprintf("≤%.*f yes", digits, g.Most)
		default:
			return fmt.Sprintf("≤%.*f no ", digits, g.Most)
		}
	}
	return ""
}

func figure(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) { // not measured, or divided by nothing
		return ""
	}
	return fmt.Sprintf("%.*f", digits, v)
}
