package explain

import (
	"fmt"
	"io"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
)

// marks show the state of a link at the beginning of its line.
var marks = map[chain.State]string{chain.OK: "ok", chain.Broken: "BROKEN", chain.Skipped: "-", chain.Unknown: "unknown"}

// Print writes a report for people: a line for each link, then the cause with its fix, then what else is
// wrong.
func Print(w io.Writer, p output.Painter, r *chain.Report) error {
	who := "a pod with the default search path"
	if r.Pod != "" {
		who = "pod " + r.Pod
	}
	if _, err := fmt.Fprintf(w, "%s, asked for in %s by %s\n\n", p.Strong(output.Clean(r.Name)), output.Clean(r.Context), who); err != nil {
		return err
	}
	paint := map[chain.State]func(string) string{chain.OK: p.Good, chain.Broken: p.Bad, chain.Skipped: p.Faint, chain.Unknown: p.Weak}
	rows := make([][]output.Cell, 0, len(r.Links))
	for _, l := range r.Links {
		rows = append(rows, []output.Cell{{Text: marks[l.State], Paint: paint[l.State]}, {Text: l.Cluster}, {Text: l.Link}, {Text: l.Detail}})
	}
	if err := output.Rows(w, []string{"STATE", "CLUSTER", "LINK", "WHAT"}, rows); err != nil {
		return err
	}
	switch {
	case r.Cause != nil:
		if _, err := fmt.Fprintf(w, "\n%s\n", p.Strong("Cause:")); err != nil {
			return err
		}
		if err := output.Problems(w, p, []output.Problem{*r.Cause}); err != nil {
			return err
		}
	case r.Result == chain.ResultWhole:
		if _, err := fmt.Fprintln(w, "\nThe chain is whole."); err != nil {
			return err
		}
	default:
		if _, err := fmt.Fprintln(w, "\nNo cause is known: some links could not be read."); err != nil {
			return err
		}
	}
	if len(r.Also) == 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n", p.Strong("Also:")); err != nil {
		return err
	}
	return output.Problems(w, p, r.Also)
}
