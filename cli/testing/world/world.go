// Package world gives tests real clusters, each with an API server and the controllers, and runs
// commands of kubectl-multicluster against them.
package world

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/command"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// World is some clusters, and a kubeconfig with a context for each. A context's name is also the
// cluster's ID.
type World struct {
	t        testing.TB
	Clusters map[string]*Cluster
	// Config is the content of Kubeconfig. WriteConfig stores changes.
	Config     *api.Config
	Kubeconfig string
}

// Cluster is one of them.
type Cluster struct {
	*controlplane.Cluster
	ID         string
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface
	controller *controlplane.Beside
}

// New starts clusters with the CRDs, the namespace multicluster-system, the objects of
// deploy/controller, and the controllers of Kubernetes for garbage and tokens. It starts no
// controller of ours.
func New(t testing.TB, ids ...string) *World {
	t.Helper()
	controlplane.NotShort(t)
	w := &World{t: t, Clusters: map[string]*Cluster{}, Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	kubectl := Programs(t, "kubectl")["kubectl"]
	var starting sync.WaitGroup
	var mu sync.Mutex
	started := map[string]*controlplane.Cluster{}
	for _, id := range ids {
		starting.Go(func() {
			c, err := controlplane.Start(t.Context(), controlplane.Options{})
			if err == nil {
				t.Cleanup(func() { _ = c.Stop() })
				err = install(t.Context(), c, kubectl)
			}
			if err != nil {
				t.Errorf("start cluster %s: %v", id, err)
				return
			}
			mu.Lock()
			started[id] = c
			mu.Unlock()
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for id, c := range started {
		w.Clusters[id] = &Cluster{
			Cluster: c, ID: id, Kube: kubernetes.NewForConfigOrDie(c.Config), Dynamic: dynamic.NewForConfigOrDie(c.Config),
		}
	}
	w.Config = controlplane.Contexts(started)
	w.Config.CurrentContext = ids[0]
	w.WriteConfig()
	return w
}

// install applies what an administrator applies. The images of the Deployments are never run.
func install(ctx context.Context, c *controlplane.Cluster, kubectl string) error {
	if err := c.InstallCRDs(ctx, controlplane.BothVersions); err != nil {
		return err
	}
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig", c.Kubeconfig, "apply", "--server-side", "-k", filepath.Join(root, "deploy", "controller")) //nolint:gosec // a program of the tests
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install the controller: %w\n%s", err, out)
	}
	return c.StartControllers(ctx)
}

// WriteConfig stores Config in Kubeconfig.
func (w *World) WriteConfig() {
	w.t.Helper()
	if err := clientcmd.WriteToFile(*w.Config, w.Kubeconfig); err != nil {
		w.t.Fatal(err)
	}
}

// As adds a context: a cluster, as an account of it. It returns a function that removes the context.
func (w *World) As(context, id, namespace, account string) (remove func()) {
	w.t.Helper()
	config, _, err := w.Clusters[id].ServiceAccount(w.t.Context(), namespace, account)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Config.AuthInfos[context] = &api.AuthInfo{Token: config.BearerToken}
	w.Config.Contexts[context] = &api.Context{Cluster: id, AuthInfo: context}
	w.WriteConfig()
	return func() {
		delete(w.Config.Contexts, context)
		w.WriteConfig()
	}
}

// Programs builds programs of Kubernetes once, and returns their paths.
func Programs(t testing.TB, names ...string) map[string]string {
	t.Helper()
	paths, err := controlplane.Build(t.Context(), os.Stderr, names...)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// controllerProgram builds the controller of this checkout, once for each test binary.
var controllerProgram = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "multicluster-cli-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "multicluster-controller")
	cmd := exec.Command("go", "build", "-o", path, "./controller") //nolint:gosec,noctx // the build outlives the test that asks first
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the controller: %w\n%s", err, out)
	}
	return path, nil
})

// Main runs the tests of a package, and deletes what controllers were built.
func Main(m *testing.M) {
	code := m.Run()
	if path, err := controllerProgram(); err == nil && strings.Contains(path, "multicluster-cli-") {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// StartController runs the controller of a cluster, and waits until it is ready and has announced its ID.
// It ends with the test.
func (w *World) StartController(id string, flags ...string) {
	w.t.Helper()
	program, err := controllerProgram()
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.Clusters[id]
	port, err := controlplane.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	probes := fmt.Sprintf("127.0.0.1:%d", port)
	args := append([]string{
		"--kubeconfig=" + c.Kubeconfig, "--namespace=" + system.Namespace, "--cluster-id=" + id,
		"--metrics-bind-address=0", "--health-probe-bind-address=" + probes,
	}, flags...)
	if c.controller, err = c.Beside(w.t.Context(), ready("http://"+probes+"/readyz"), program, args...); err != nil {
		w.t.Fatalf("start the controller of %s: %v", id, err)
	}
	w.t.Cleanup(c.controller.Stop)
	controlplane.Eventually(w.t, id+" announces its ID", func() error {
		found, err := system.ReadIdentity(w.t.Context(), c.Kube)
		if err == nil && found.ID != id {
			err = fmt.Errorf("it announces %q", found.ID)
		}
		return err
	})
}

// StopController ends the controller of a cluster.
func (w *World) StopController(id string) { w.Clusters[id].controller.Stop() }

func ready(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	}
}

// Announce does what a controller does with its ID, where a test needs no controller.
func (w *World) Announce(context, id string) {
	w.t.Helper()
	namespaces := w.Clusters[context].Kube.CoreV1().Namespaces()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"clusterset-dns.io/cluster-id": %q}}}`, id)
	if _, err := namespaces.Patch(w.t.Context(), system.Namespace, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// Result is what a command printed, and its exit status.
type Result struct {
	Out, Err string
	Status   int
}

// Run runs a command of kubectl-multicluster in this process.
func (w *World) Run(args ...string) Result {
	w.t.Helper()
	return w.RunContext(w.t.Context(), args...)
}

// RunContext is Run with a context, which a test can cancel as Ctrl-C does.
func (w *World) RunContext(ctx context.Context, args ...string) Result {
	w.t.Helper()
	var out, errOut bytes.Buffer
	status := command.Main(ctx, append([]string{"--kubeconfig", w.Kubeconfig}, args...), strings.NewReader(""), &out, &errOut)
	return Result{out.String(), errOut.String(), status}
}

// Kubectl runs the real kubectl against a cluster and returns its output.
func (w *World) Kubectl(id string, args ...string) string {
	w.t.Helper()
	path := Programs(w.t, "kubectl")["kubectl"]
	cmd := exec.CommandContext(w.t.Context(), path, append([]string{"--kubeconfig", w.Kubeconfig, "--context", id}, args...)...) //nolint:gosec // a program of the tests
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Namespace makes a namespace in clusters, and leaves it there.
func (w *World) Namespace(name string, ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := w.Clusters[id].Kube.CoreV1().Namespaces().Create(w.t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
}
