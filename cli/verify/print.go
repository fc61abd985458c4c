package verify

import (
	"fmt"
	"io"
	"strings"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// Print writes a table of the steps.
func (r Report) Print(w io.Writer, p output.Painter) error {
	var rows [][]output.Cell
	for _, d := range r.Directions {
		for _, s := range d.Steps {
			result := output.Cell{Text: "ok", Paint: p.Good}
			if !s.OK {
				result = output.Cell{Text: "failed", Paint: p.Bad}
			}
			rows = append(rows, []output.Cell{{Text: d.Server}, {Text: d.Client}, {Text: s.Name}, result, {Text: fmt.Sprintf("%.1f s", s.Seconds)}, {Text: s.Detail}})
		}
	}
	if err := output.Rows(w, []string{"SERVER", "CLIENT", "STEP", "RESULT", "TIME", "DETAIL"}, rows); err != nil {
		return err
	}
	if len(r.Removed) > 0 {
		if _, err := fmt.Fprintf(w, "\nRemoved namespaces that earlier runs had left: %s\n", strings.Join(r.Removed, ", ")); err != nil {
			return err
		}
	}
	return output.Problems(w, p, r.Problems)
}
