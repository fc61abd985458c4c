package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// answerer is who answers.
type answerer string

// The answerers that are compared, in the order of the table's columns.
const (
	ours      answerer = "ours"
	inTree    answerer = "in-tree"
	whoami    answerer = "whoami"
	readyMade answerer = "ready-made"
)

var everybody = []answerer{ours, inTree, whoami, readyMade}

// key identifies a figure: the measure, the case, and the answerer.
type key struct {
	measure, at string
	who         answerer
}

// samples are all the figures of a run, in the order in which they were measured. The zero value has none.
type samples struct {
	keys   []key
	values map[key][]float64
}

func (s *samples) add(measure, at string, who answerer, value float64) {
	k := key{measure, at, who}
	if s.values == nil {
		s.values = map[key][]float64{}
	}
	if !slices.Contains(s.keys, k) {
		s.keys = append(s.keys, k)
	}
	s.values[k] = append(s.values[k], value)
}

// quantile is NaN of what was not measured.
func (s *samples) quantile(of, at string, who answerer, q float64) float64 {
	return measure.Quantile(s.values[key{of, at, who}], q)
}

// csv has every figure, a line each, for those who want other statistics than ours.
func (s *samples) csv() []byte {
	lines := [][]string{{"measure", "case", "answerer", "sample", "value"}}
	for _, k := range s.keys {
		for i, v := range s.values[k] {
			lines = append(lines, []string{k.measure, k.at, string(k.who), strconv.Itoa(i + 1), strconv.FormatFloat(v, 'g', 6, 64)})
		}
	}
	var text bytes.Buffer
	measure.Check(csv.NewWriter(&text).WriteAll(lines))
	return text.Bytes()
}

// section is some rows under one heading.
type section struct {
	title string
	rows  []row
}

// row has a figure of each answerer, and what is wanted of them.
type row struct {
	title  string
	digits int // after the point
	goals  []goal
	value  func(answerer) float64 // NaN of what was not measured
}

func (r row) isEmpty() bool {
	return !slices.ContainsFunc(everybody, func(who answerer) bool { return !math.IsNaN(r.value(who)) })
}

// goal is the highest value that is wanted: of ours divided by that of another answerer, or of ours alone where of is empty.
type goal struct {
	of   answerer
	most float64
}

// reached is by the figures as they were measured: 1.004 does not reach 1.00, and nothing reaches no goal.
func (g goal) reached(r row) bool {
	if g.of == "" {
		return r.value(ours) <= g.most
	}
	return r.value(ours)/r.value(g.of) <= g.most
}

// table sets the sections as one table, and counts below it how many goals are reached.
func table(sections []section) string {
	lines := [][]string{heading()}
	reached, goals := 0, 0
	for _, s := range sections {
		lines = append(lines, nil, []string{s.title})
		for _, r := range s.rows {
			lines = append(lines, append([]string{"  " + r.title}, r.cells()...))
			for _, g := range r.goals {
				goals++
				if g.reached(r) {
					reached++
				}
			}
		}
	}
	return fmt.Sprintf("%s\n%d of %d goals are reached.\n", align(lines), reached, goals)
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

// cells are the figures, the goal of ours, and ours divided by each other's, with the goal and whether it is reached.
func (r row) cells() (cells []string) {
	for _, who := range everybody {
		cells = append(cells, figure(r.value(who), r.digits))
	}
	cells = append(cells, r.judged("", r.digits))
	for _, who := range everybody[1:] {
		ratio := figure(r.value(ours)/r.value(who), 2)
		if goal := r.judged(who, 2); goal != "" {
			ratio = strings.TrimLeft(ratio+" "+goal, " ")
		}
		cells = append(cells, ratio)
	}
	return cells
}

func (r row) judged(of answerer, digits int) (text string) {
	for _, g := range r.goals {
		if g.of == of {
			text = fmt.Sprintf("≤%.*f %s", digits, g.most, map[bool]string{true: "yes", false: "no "}[g.reached(r)])
		}
	}
	return text
}

func figure(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) { // not measured, or divided by nothing
		return ""
	}
	return fmt.Sprintf("%.*f", digits, v)
}
