package command

import (
	"bytes"
	"os"
	"path/filepath"
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

// A flag that would be ignored, or that has a wrong value, is named.
func TestFlagsThatHaveNoMeaning(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: a, context: {cluster: c}}, {name: "b,c", context: {cluster: c}}]}`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"join a b --context a":            "--context has no meaning for join",
		"leave a b -n foo":                "--namespace has no meaning for leave",
		"rotate a b --context=nosuch":     "--context has no meaning for rotate",
		"verify a b -n foo":               "--namespace has no meaning for verify",
		"verify a":                        "expected two contexts of the kubeconfig",
		"verify a a":                      "expected two different contexts: got a twice",
		"verify a b --requests 0":         "--requests 0: expected 1 to 1000",
		"verify a b --timeout 0s":         "--timeout 0s: expected more than 0",
		"status --context a --contexts a": "--context and --contexts exclude each other",
		"status --contexts=":              "--contexts: expected names of contexts",
		"status --context nosuch":         `unknown context "nosuch"`,
		"export foo --context nosuch":     `unknown context "nosuch"`,
		"unexport foo --context nosuch":   `unknown context "nosuch"`,
		"explain foo --context nosuch":    `unknown context "nosuch"`,
		"check --context nosuch":          `unknown context "nosuch"`,
		"gather --context nosuch":         `unknown context "nosuch"`,
		"status --request-timeout 1x":     "--request-timeout 1x: expected a time",
		"join --from a b --id=x":          "--id x",
		"stauts":                          "did you mean status?",
	} {
		out, errOut, status := run(t, append([]string{"--kubeconfig", file}, strings.Fields(line)...)...)
		if status != statusUsage || out != "" || strings.Count(errOut, want) != 1 {
			t.Errorf("%s: status %d, output %q, errors %q, want %q", line, status, out, errOut, want)
		}
	}
	// Spaces after commas are none of the names, and a name with a comma is quoted.
	if _, errOut, status := run(t, "--kubeconfig", file, "status", "--contexts", `"b,c", a`); status != statusWrong {
		t.Errorf("status %d, errors %q", status, errOut)
	}
}
