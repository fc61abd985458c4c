package export

import (
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// A Service is called exported only if the conditions show it.
func TestPrintSaysWhatIsKnown(t *testing.T) {
	ready, not := []Condition{{Type: "Ready", Status: "True"}}, []Condition{{Type: "Ready", Status: "False"}}
	for _, c := range []struct {
		report Report
		want   string
	}{
		{Report{Action: Created}, "has a ServiceExport now."},
		{Report{Action: Created, Conditions: not}, "has a ServiceExport now."},
		{Report{Action: Created, Conditions: ready}, "is exported now."},
		{Report{Action: Unchanged}, "has a ServiceExport already. Nothing was written."},
		{Report{Action: Unchanged, Conditions: ready}, "is exported already. Nothing was written."},
		{Report{Action: Unchanged, Problems: []output.Problem{{ID: "AutoExported"}}}, "is exported by auto-export. Nothing was written."},
	} {
		var text strings.Builder
		if err := c.report.Print(&text, false); err != nil || !strings.Contains(text.String(), c.want) {
			t.Errorf("%+v: %v, %q, want %q", c.report, err, text.String(), c.want)
		}
	}
}
