package clusters

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name  string
		index int
		want  error
	}{
		{"c1", 1, nil},
		{"tenletters", 9, nil},
		{"", 1, errName},
		{"elevenlette", 1, errName},
		{"../etc", 1, errName},
		{"c-1", 1, errName},
		{"c1", 0, errIndex},
		{"c1", 10, errIndex},
	} {
		if err := (Options{Name: c.name, Index: c.index}).check(); !errors.Is(err, c.want) {
			t.Errorf("%q, %d: %v; want %v", c.name, c.index, err, c.want)
		}
	}
}

// TestZombiesHaveEnded: a process that has ended and is not waited for yet keeps its number, and
// cannot be killed again.
func TestZombiesHaveEnded(t *testing.T) {
	if started, ok := startOf(os.Getpid()); !ok || started == "" {
		t.Error("this process does not run")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, ok := startOf(cmd.Process.Pid); !ok {
		t.Error("a child does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the kernel ends the child", func() error {
		if _, ok := startOf(cmd.Process.Pid); ok {
			return errors.New("it runs")
		}
		return nil
	})
	_ = cmd.Wait() // the error is that it was killed
}

// TestRecordsDoNotOutliveTheirProcess: another process with the number of a recorded one is not the cluster's.
func TestRecordsDoNotOutliveTheirProcess(t *testing.T) {
	c := &Cluster{Dir: t.TempDir()}
	if err := os.MkdirAll(c.path("run"), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.record(&program{name: "self", cmd: &exec.Cmd{Process: self}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.path("run", "reused.pid"), []byte("1 never\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.recorded(); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("%v; want this process alone", got)
	}
}

func TestImagesAreLoadedWhenAllAreNoticed(t *testing.T) {
	const heading = "REF  TYPE  DIGEST  SIZE  PLATFORMS  LABELS\n"
	const noticed = "registry.invalid/clusterset-dns/pause:1  type  sha256:01  1.4 MiB  linux/amd64  io.cri-containerd.image=managed\n"
	const unnoticed = "registry.invalid/clusterset-dns/tools:1  type  sha256:02  138.4 MiB  linux/amd64  -\n"
	if err := checkManaged(heading + noticed); err != nil {
		t.Error(err)
	}
	if err := checkManaged(heading + noticed + unnoticed); err == nil || !strings.Contains(err.Error(), "tools:1") {
		t.Errorf("%v; want the image that is not noticed", err)
	}
}

func TestANodeIsReadyWithoutTaints(t *testing.T) {
	node := &corev1.Node{}
	if ready(node) == nil {
		t.Error("a node that has said nothing is ready")
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := ready(node); err != nil {
		t.Error(err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	if ready(node) == nil {
		t.Error("a tainted node is ready")
	}
}
