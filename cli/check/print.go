package check

import (
	"fmt"
	"io"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// Print writes a table of all checks, then what to do where one failed or warns.
func (r Report) Print(w io.Writer, p output.Painter) error {
	paint := map[Result]func(string) string{OK: p.Good, Warning: p.Weak, Failed: p.Bad, Unknown: p.Weak}
	count := map[Result]int{}
	var rows [][]output.Cell
	var wrong []output.Problem
	for _, c := range r.Checks {
		count[c.Result]++
		rows = append(rows, []output.Cell{{Text: c.ID}, {Text: c.Cluster}, {Text: string(c.Result), Paint: paint[c.Result]}, {Text: c.Detail}})
		if c.Result == Failed || c.Result == Warning {
			wrong = append(wrong, output.Problem{ID: c.ID, What: fmt.Sprintf("%s: %s.", c.Cluster, c.Detail), Fix: c.Fix, Advice: c.Advice, Link: c.Link})
		}
	}
	if err := output.Rows(w, []string{"CHECK", "CLUSTER", "RESULT", "DETAIL"}, rows); err != nil {
		return err
	}
	if err := output.Problems(w, p, wrong); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %s, %d failed, %d unknown\n", count[OK], output.Count(count[Warning], "warning"), count[Failed], count[Unknown])
	return err
}
