package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// output is the output of a process. It can be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// build returns the program, which is linked once for all tests.
func build(t *testing.T) string {
	t.Helper()
	path, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var folder string

var linked = sync.OnceValues(func() (string, error) {
	path := filepath.Join(folder, "multicluster-controller")
	command := exec.Command("go", "build", "-o", path, ".") //nolint:noctx // it serves all tests
	command.Env = append(os.Environ(), "CGO_ENABLED=0")     // as build/env.sh does
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, text)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "multicluster-controller-test-"); err != nil {
		panic(err)
	}
	code := kube.Main(m)
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// TestProcess runs the program as its Deployment does. The program waits for the CRD, healthy but
// not ready. It becomes ready when the CRD is installed. When the CRD is removed, it exits with an
// error that contains the reason, so that Kubernetes restarts it.
func TestProcess(t *testing.T) {
	program := build(t)
	cluster := kube.New(t, kube.Options{})
	address := freeAddress(t)
	var said output
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	process := exec.CommandContext(ctx, program, "--kubeconfig="+cluster.Kubeconfig, "--metrics-bind-address=0",
		"--health-probe-bind-address="+address, "--namespace=default")
	process.Stderr = &said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()

	kube.Eventually(t, "waiting for the CRD", func() error {
		return errors.Join(answers(t, address, "/healthz", http.StatusOK), answers(t, address, "/readyz", http.StatusServiceUnavailable), says(&said, "install the CRD"))
	})
	if err := cluster.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "ready", func() error {
		return errors.Join(answers(t, address, "/healthz", http.StatusOK), answers(t, address, "/readyz", http.StatusOK))
	})
	if err := cluster.RemoveCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("goes on without the CRD")
	}
	if err := says(&said, "the ServiceImport CRD has changed"); err != nil {
		t.Error(err)
	}
}

// A process that receives SIGTERM reports no error and releases its Lease.
// --health-probe-bind-address=0 disables the probes.
func TestATerminatedProcessReportsNoError(t *testing.T) {
	program := build(t)
	cluster := kube.New(t, kube.Options{})
	if err := cluster.InstallCRDs(t.Context(), kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	var said output
	process := exec.CommandContext(t.Context(), program, "--kubeconfig="+cluster.Kubeconfig, "--metrics-bind-address=0",
		"--health-probe-bind-address=0", "--namespace=default", "--cluster-id=member1")
	process.Stderr = &said
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	leases := kubernetes.NewForConfigOrDie(cluster.Config).CoordinationV1().Leases("default")
	holder := func() (string, error) {
		lease, err := leases.Get(t.Context(), "multicluster-controller.clusterset-dns.io", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil {
			return "", err
		}
		return *lease.Spec.HolderIdentity, nil
	}
	kube.Eventually(t, "it leads", func() error {
		if by, err := holder(); err != nil || by == "" {
			return fmt.Errorf("the Lease is held by %q: %w", by, err)
		}
		return says(&said, "Starting workers")
	})
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(); err != nil || strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("it ended with %v:\n%s", err, said.String())
	}
	if by, err := holder(); err != nil || by != "" {
		t.Errorf("the Lease is held by %q: %v", by, err)
	}
}

// Each error contains what to do.
func TestErrorsContainWhatToDo(t *testing.T) {
	program := build(t)
	taken := freeListener(t)
	// This server does not exist: the program would wait for the CRD forever.
	kubeconfig := someKubeconfig(t)
	outside := func(flags ...string) []string {
		return append([]string{"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=127.0.0.1:0"}, flags...)
	}
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"no cluster", nil, "--kubeconfig"},
		{"a kubeconfig that is not there", []string{"--kubeconfig=/nowhere"}, "/nowhere"},
		{"an address in use", []string{"--kubeconfig=" + kubeconfig, "--health-probe-bind-address=" + taken}, "--health-probe-bind-address"},
		{"metrics at an address in use", outside("--namespace=default", "--metrics-bind-address="+taken), "--metrics-bind-address"},
		{"pprof at an address in use", outside("--namespace=default", "--metrics-bind-address=0", "--pprof-bind-address="+taken), "--pprof-bind-address"},
		{"an unknown log format", outside("--log-format=xml"), `--log-format is \"xml\"`},
		{"metrics at what is no address", outside("--leader-elect=false", "--metrics-bind-address=nowhere"), "--metrics-bind-address"},
		{"no namespace for the Lease outside a pod", outside("--metrics-bind-address=0"), "--namespace"},
		{"a namespace that cannot be", outside("--namespace=default", "--cluster-profiles=Fleet_1"), "--cluster-profiles is \\\"Fleet_1\\\""},
		{"an interval of nothing", outside("--namespace=default", "--heartbeat-interval=0"), "--heartbeat-interval is 0s"},
		{"too long an interval", outside("--namespace=default", "--probe-interval=2h"), "--probe-interval is 2h0m0s"},
		{"an argument that is no flag", []string{"--leader-elect", "false"}, `\"false\"`},
		{"an unknown flag", []string{"--frobnicate"}, "-frobnicate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			command := exec.CommandContext(ctx, program, test.args...)
			command.Env = []string{"HOME=" + t.TempDir()}
			text, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(text), test.want) {
				t.Errorf("%v, without %q:\n%s", err, test.want, text)
			}
		})
	}
	if text, err := exec.CommandContext(t.Context(), program, "--version").Output(); err != nil || !strings.HasPrefix(string(text), "multicluster-controller ") {
		t.Errorf("--version: %q, %v", text, err)
	}
}

// All arguments of the container in the Deployment are flags of the program.
func TestFlagsOfTheDeployment(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "deploy", "controller", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	deployment := new(appsv1.Deployment)
	if err := yaml.UnmarshalStrict(text, deployment); err != nil {
		t.Fatal(err)
	}
	args := append(deployment.Spec.Template.Spec.Containers[0].Args, "--version")
	if text, err := exec.CommandContext(t.Context(), build(t), args...).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", args, err, text)
	}
}

func says(said *output, want string) error {
	if text := said.String(); !strings.Contains(text, want) {
		return fmt.Errorf("does not say %q:\n%s", want, text)
	}
	return nil
}

func answers(t *testing.T, address, path string, want int) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != want {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return nil
}

func freeListener(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func someKubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogFormatJSON(t *testing.T) {
	command := exec.CommandContext(t.Context(), build(t), "--kubeconfig=/nowhere", "--log-format=json")
	text, err := command.CombinedOutput()
	var line struct{ Level, Err string }
	if jsonErr := json.Unmarshal(text, &line); jsonErr != nil || err == nil || line.Level != "ERROR" || !strings.Contains(line.Err, "/nowhere") {
		t.Errorf("%v, and the log is %v: %s", err, jsonErr, text)
	}
}
