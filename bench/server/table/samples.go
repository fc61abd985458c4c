// Package table turns what was measured into one table: medians, the ratios of ours to the others, and whether they reach the goals.
package table

import (
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
)

// Who answers, in the order of the table's columns.
type Who string

// The answerers that are compared.
const (
	Ours      Who = "ours"
	InTree    Who = "in-tree"
	Whoami    Who = "whoami"
	ReadyMade Who = "ready-made"
)

var everybody = []Who{Ours, InTree, Whoami, ReadyMade}

// Key identifies a figure: the measure, the case, and the answerer.
type Key struct {
	Measure, Case string
	Who           Who
}

// Samples are all the figures of a run, in the order in which they were measured. The zero value has none.
type Samples struct {
	keys   []Key
	values map[Key][]float64
}

// Add takes one figure.
func (s *Samples) Add(measure, at string, who Who, value float64) {
	k := Key{measure, at, who}
	if s.values == nil {
		s.values = map[Key][]float64{}
	}
	if _, ok := s.values[k]; !ok {
		s.keys = append(s.keys, k)
	}
	s.values[k] = append(s.values[k], value)
}

// Median of one's figures; NaN where there are none.
func (s *Samples) Median(measure, at string, who Who) float64 {
	return s.Quantile(measure, at, who, 0.5)
}

// Quantile is the figure that the share q of all figures does not exceed; for an even number of them, the median is the mean of the
// two in the middle.
func (s *Samples) Quantile(measure, at string, who Who, q float64) float64 {
	return quantile(s.values[Key{measure, at, who}], q)
}

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	last := len(sorted) - 1
	if half := len(sorted) / 2; q == 0.5 {
		return (sorted[half] + sorted[last-half]) / 2
	}
	return sorted[min(last, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// WriteCSV writes every figure, a line each, for those who want other statistics than ours.
func (s *Samples) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"measure", "case", "answerer", "sample", "value"}}
	for _, k := range s.keys {
		for i, v := range s.values[k] {
			lines = append(lines, []string{k.Measure, k.Case, string(k.Who), strconv.Itoa(i + 1), strconv.FormatFloat(v, 'g', 6, 64)})
		}
	}
	return out.WriteAll(lines)
}
