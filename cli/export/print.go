package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// Print writes the report for people.
func (r Report) Print(w io.Writer, p output.Painter) error {
	name := fmt.Sprintf("Service %s/%s in %s", r.Namespace, r.Name, output.Clean(r.Context))
	line := name + " is exported already. Nothing was written."
	switch {
	case r.Action == Created:
		line = name + " has a ServiceExport now."
		if r.exported() {
			line = name + " is exported now."
		}
	case r.Action == Unchanged && !r.exported() && (len(r.Problems) == 0 || r.Problems[0].ID != "AutoExported"):
		line = name + " has a ServiceExport already. Nothing was written."
	case r.Action == Deleted:
		line = name + " is no longer exported. " + r.importers()
	case len(r.Problems) > 0 && r.Problems[0].ID == "AutoExported":
		line = name + " is exported by auto-export. Nothing was written."
	}
	if _, err := fmt.Fprintln(w, line); err != nil {
		return err
	}
	if len(r.Conditions) > 0 {
		rows := make([][]output.Cell, 0, len(r.Conditions))
		for _, c := range r.Conditions {
			rows = append(rows, []output.Cell{{Text: c.Type}, {Text: c.Status}, {Text: c.Reason}, {Text: c.Message}})
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := output.Rows(w, []string{"CONDITION", "STATUS", "REASON", "MESSAGE"}, rows); err != nil {
			return err
		}
	}
	return output.Problems(w, p, r.Problems)
}

// importers is who loses the endpoints of this cluster.
func (r Report) importers() string {
	var parts []string
	if len(r.ImportedBy) > 0 {
		parts = append(parts, "These contexts imported it: "+output.List(r.ImportedBy, 20)+".")
	} else {
		parts = append(parts, "No other context that could be read imported it.")
	}
	if len(r.Unread) > 0 {
		parts = append(parts, "Not known for: "+output.List(r.Unread, 20)+".")
	}
	return strings.Join(parts, " ")
}

// exported reports whether the conditions show that the controller has exported the Service.
func (r Report) exported() bool {
	return slices.ContainsFunc(r.Conditions, func(c Condition) bool { return c.Type == "Ready" && c.Status == "True" })
}
