package command_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/cli/status"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
)

// The real kubectl finds the plugin, passes its exit status on, and completes its arguments.
func TestPluginOfKubectl(t *testing.T) {
	w := world.New(t, "member1")
	w.StartController("member1")
	env := append(os.Environ(), "KUBECONFIG="+w.Kubeconfig, "PATH="+world.Path(t))
	kubectl := func(args ...string) (string, string, int) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `exec kubectl "$@"`, "sh"}, args...)...)
		cmd.Env = env
		var errOut strings.Builder
		cmd.Stderr = &errOut
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), errOut.String(), cmd.ProcessState.ExitCode()
	}

	t.Run("status", func(t *testing.T) {
		// No kubelet runs the pods of the controller's Deployment: this is the only problem.
		out, errOut, code := kubectl("multicluster", "status", "-o", "json")
		var report status.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s%s", err, out, errOut)
		}
		if code != 1 || len(report.Clusters) != 1 || report.Clusters[0].ID != "member1" || len(report.Problems) != 1 || report.Problems[0].ID != "ControllerNotReady" {
			t.Errorf("exit status %d, report %s", code, out)
		}
	})
	t.Run("wrong flag", func(t *testing.T) {
		if _, errOut, code := kubectl("multicluster", "status", "--no-such-flag"); code != 2 || !strings.Contains(errOut, "kubectl multicluster --help") {
			t.Errorf("exit status %d, errors %q", code, errOut)
		}
	})
	t.Run("completion", func(t *testing.T) {
		for _, c := range []struct {
			args []string
			want string
		}{
			{[]string{"multicluster", "stat"}, "status"},
			{[]string{"multicluster", "status", "--contexts", ""}, "member1"},
			{[]string{"multicluster", "status", "-o", "y"}, "yaml"},
		} {
			out, errOut, code := kubectl(append([]string{"__complete"}, c.args...)...)
			if code != 0 || !strings.Contains(out, c.want) {
				t.Errorf("completing %q: exit status %d, %q, %q; want %q", c.args, code, out, errOut, c.want)
			}
		}
	})
}
