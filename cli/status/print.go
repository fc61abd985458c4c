package status

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/clusterset-dns/multicluster/cli/output"
)

const (
	// maxColumns bounds the matrix: a wider one cannot be read.
	maxColumns = 24
	// maxProblems bounds the printed problems. JSON has all.
	maxProblems = 30
)

// Print writes the report for people: a table of clusters, a matrix of links, the problems and the next
// command.
func (r Report) Print(w io.Writer, p output.Painter) error {
	if err := r.printClusters(w, p); err != nil {
		return err
	}
	if err := r.printMatrix(w, p); err != nil {
		return err
	}
	if first := firstExpiry(r.Links); first != nil {
		_, err := fmt.Fprintf(w, "\nThe next token that expires is that of %s for %s, at %s.\n", first.Reader, first.Source, first.TokenExpiry.UTC().Format(time.RFC3339))
		if err != nil {
			return err
		}
	}
	shown := r.Problems[:min(len(r.Problems), maxProblems)]
	if err := output.Problems(w, p, shown); err != nil {
		return err
	}
	if more := len(r.Problems) - len(shown); more > 0 {
		if _, err := fmt.Fprintf(w, "\n%s more: -o json lists all.\n", output.Count(more, "problem")); err != nil {
			return err
		}
	}
	for _, command := range r.Next {
		if _, err := fmt.Fprintf(w, "\nNext: %s\n", p.Strong(command)); err != nil {
			return err
		}
	}
	return nil
}

// firstExpiry is the link whose token expires next, or nil if no token expires.
func firstExpiry(all []Link) *Link {
	var first *Link
	for i := range all {
		if at := all[i].TokenExpiry; !at.IsZero() && (first == nil || at.Before(first.TokenExpiry)) {
			first = &all[i]
		}
	}
	return first
}

func (r Report) printClusters(w io.Writer, p output.Painter) error {
	var rows [][]output.Cell
	for _, c := range r.Clusters {
		rows = append(rows, []output.Cell{
			{Text: c.Context}, c.idCell(p), {Text: orDash(c.Kubernetes)}, replicas(c.Controller, p), {Text: orDash(c.ControllerVersion)},
			replicas(c.DNS, p), {Text: orDash(c.DNSVersion)}, readyCell(c.Exports, p), readyCell(c.Imports, p),
		})
	}
	return output.Rows(w, []string{"CONTEXT", "ID", "KUBERNETES", "CONTROLLER", "VERSION", "DNS", "VERSION", "EXPORTS", "IMPORTS"}, rows)
}

func (c Cluster) idCell(p output.Painter) output.Cell {
	switch {
	case !c.reachable:
		return output.Cell{Text: "unreachable", Paint: p.Bad}
	case c.Installed == nil:
		return output.Cell{Text: "?", Paint: p.Weak}
	case !*c.Installed:
		return output.Cell{Text: "not installed", Paint: p.Weak}
	case c.ID == "":
		return output.Cell{Text: "none", Paint: p.Bad}
	}
	return output.Cell{Text: c.ID}
}

func replicas(r *Replicas, p output.Painter) output.Cell {
	if r == nil {
		return output.Cell{Text: "?", Paint: p.Weak}
	}
	if r.Wanted == 0 {
		return output.Cell{Text: "-"}
	}
	return fraction(int(r.Ready), int(r.Wanted), p)
}

func readyCell(r *Ready, p output.Painter) output.Cell {
	if r == nil {
		return output.Cell{Text: "?", Paint: p.Weak}
	}
	return fraction(r.Ready, r.All, p)
}

func fraction(ready, all int, p output.Painter) output.Cell {
	paint := p.Good
	if ready < all {
		paint = p.Bad
	}
	return output.Cell{Text: fmt.Sprintf("%d/%d", ready, all), Paint: paint}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// column is a source of the matrix. The title is its ID, or its context if two contexts have one ID.
type column struct{ title, id, context string }

// columns are the clusters with an ID, in their order, and other sources. Shared reports whether two
// contexts have one ID.
func (r Report) columns() (all []column, shared bool) {
	seen := map[string]bool{}
	for _, c := range r.Clusters {
		if c.ID == "" {
			continue
		}
		shared = shared || seen[c.ID]
		seen[c.ID] = true
		all = append(all, column{c.ID, c.ID, c.Context})
	}
	if shared {
		for i := range all {
			all[i].title = all[i].context
		}
	}
	for _, l := range r.Links {
		if !seen[l.Source] {
			seen[l.Source] = true
			all = append(all, column{title: l.Source, id: l.Source})
		}
	}
	return all, shared
}

// printMatrix writes a row for each reader and a column for each source.
func (r Report) printMatrix(w io.Writer, p output.Painter) error {
	sources, shared := r.columns()
	reads := map[[2]string]Link{} // by the context of the reader and the ID of the source
	for _, l := range r.Links {
		reads[[2]string{l.Context, l.Source}] = l
	}
	if len(sources) < 2 {
		return nil
	}
	if len(sources) > maxColumns {
		_, err := fmt.Fprintf(w, "\n%s: the matrix of who reads whom is not shown. -o json has all links.\n", output.Count(len(sources), "cluster"))
		return err
	}
	var rows [][]output.Cell
	header := []string{"READER \\ SOURCE"}
	for _, reader := range sources {
		header = append(header, reader.title)
		if reader.context == "" {
			continue
		}
		row := []output.Cell{{Text: reader.title}}
		for _, source := range sources {
			link, there := reads[[2]string{reader.context, source.id}]
			row = append(row, linkCell(link, there && source.context != reader.context, p))
		}
		rows = append(rows, row)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := output.Rows(w, header, rows); err != nil {
		return err
	}
	if shared {
		if _, err := fmt.Fprintln(w, p.Faint("Contexts share an ID: what reads it is in the columns of all of them.")); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(r.Links, Link.unproven) {
		_, err := fmt.Fprintln(w, p.Faint("* No endpoint of the source has accepted a connection from the reader's controller yet."))
		return err
	}
	return nil
}

// unproven reports whether a connected peer may be out of reach for traffic. It is no problem by
// itself: the source may export nothing, or only UDP.
func (l Link) unproven() bool { return l.Connected && l.DataPath == "Unknown" }

func linkCell(l Link, there bool, p output.Painter) output.Cell {
	switch {
	case !there:
		return output.Cell{Text: "·", Paint: p.Faint}
	case l.unproven():
		return output.Cell{Text: "ok*", Paint: p.Good}
	case l.Connected:
		return output.Cell{Text: "ok", Paint: p.Good}
	case l.State == NotJoined:
		return output.Cell{Text: "-", Paint: p.Faint}
	case fineStates[l.State]:
		return output.Cell{Text: l.State, Paint: p.Weak}
	}
	return output.Cell{Text: l.State, Paint: p.Bad}
}
