package command

import (
	"bytes"
	"strings"
	"testing"
)

// run runs the command line without a cluster.
func run(t *testing.T, args ...string) (out, errOut string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = Main(t.Context(), args, strings.NewReader(""), &o, &e)
	return o.String(), e.String(), status
}

// Wrong arguments have a status of their own, so that scripts can tell them from what is wrong in a cluster.
func TestUsageErrors(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown command":              {"stauts"},
		"an unknown flag":                 {"--no-such-flag"},
		"no name to explain":              {"explain"},
		"no name of a Service to explain": {"explain", "foo.default.svc.example.org"},
		"no namespace of a pod":           {"explain", "foo", "--pod", "client"},
		"an unknown format":               {"explain", "foo", "-o", "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, status := run(t, args...)
			if status != statusUsage || out != "" || !strings.Contains(errOut, "--help") {
				t.Errorf("status %d, output %q, errors %q", status, out, errOut)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	out, errOut, status := run(t, "--help")
	if status != statusFine || errOut != "" || !strings.Contains(out, "kubectl multicluster [flags]") {
		t.Errorf("status %d, output %q, errors %q", status, out, errOut)
	}
}
