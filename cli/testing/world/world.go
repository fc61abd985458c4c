// Package world gives tests real clusters, each with an API server and the controllers, and runs
// commands of kubectl-multicluster against them.
package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/command"
	"github.com/clusterset-dns/multicluster/cli/system"
	"github.com/clusterset-dns/multicluster/deploy/peer"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
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
	*kube.Cluster
	ID         string
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface
	controller *kube.Program
}

// pool has the clusters of this test binary, by their IDs.
var (
	poolLock sync.Mutex
	pool     = map[string]*kube.Cluster{}
)

// Main runs the tests of a package, and stops their clusters.
func Main(m *testing.M) {
	code := m.Run()
	for id, c := range pool {
		if err := c.Stop(); err != nil {
			fmt.Fprintf(os.Stderr, "stop cluster %s: %v\n", id, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// New gives a test clusters with these IDs. They have the CRDs, the namespace multicluster-system, the objects of deploy/controller, and
// the controllers of Kubernetes for garbage and tokens. No controller of ours runs. The tests of a package share the clusters, one after
// the other: for each, the namespace multicluster-system is as new, and there are no exports and imports. Other namespaces stay.
func New(t testing.TB, ids ...string) *World {
	t.Helper()
	kube.NotShort(t)
	poolLock.Lock()
	defer poolLock.Unlock()
	all := map[string]*kube.Cluster{}
	var preparing sync.WaitGroup
	var mu sync.Mutex
	for _, id := range ids {
		shared := pool[id]
		preparing.Go(func() {
			c, err := prepare(t.Context(), shared, id)
			mu.Lock()
			defer mu.Unlock()
			if c != nil {
				pool[id], all[id] = c, c
			}
			if err != nil {
				t.Errorf("prepare cluster %s: %v", id, err)
			}
		})
	}
	preparing.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return Of(t, all, ids[0])
}

// Of is New with clusters that a test has started for itself. Nothing is installed in them.
func Of(t testing.TB, all map[string]*kube.Cluster, current string) *World {
	t.Helper()
	w := &World{t: t, Clusters: map[string]*Cluster{}, Config: kube.Contexts(all), Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	for id, c := range all {
		w.Clusters[id] = &Cluster{
			Cluster: c, ID: id, Kube: kubernetes.NewForConfigOrDie(c.Config), Dynamic: dynamic.NewForConfigOrDie(c.Config),
		}
	}
	w.Config.CurrentContext = current
	w.WriteConfig()
	return w
}

// prepare starts a cluster, or removes what the test before has left in it. Then it applies what an administrator applies. The images of the
// Deployments are never run.
func prepare(ctx context.Context, shared *kube.Cluster, id string) (c *kube.Cluster, err error) {
	if c = shared; c == nil {
		// Two halves of one range: a ClusterIP that both clusters have by chance would look as if it meant something.
		half := "10.0.0.0/25"
		if id == "member1" {
			half = "10.0.0.128/25"
		}
		if c, err = kube.Start(ctx, kube.Options{ServiceCIDRs: half}); err != nil {
			return nil, err
		}
	}
	if err := c.InstallCRDs(ctx, kube.BothVersions); err != nil {
		return c, err
	}
	if shared != nil {
		if err := clean(ctx, c); err != nil {
			return c, err
		}
	}
	_, err = binaries.Kubectl(ctx, c, "apply", "--server-side", "--force-conflicts", "-k", filepath.Join("deploy", "controller"))
	if err == nil && shared == nil {
		err = c.StartControllers(ctx)
	}
	return c, err
}

// clean removes all exports and imports, and what joins and controllers write outside of the namespaces of tests.
func clean(ctx context.Context, c *kube.Cluster) error {
	if _, err := binaries.Kubectl(ctx, c, "delete", "serviceexports,serviceimports", "--all", "--all-namespaces"); err != nil {
		return err
	}
	kube := kubernetes.NewForConfigOrDie(c.Config)
	all, now := metav1.ListOptions{}, metav1.DeleteOptions{}
	core, rbac := kube.CoreV1(), kube.RbacV1()
	return errors.Join(
		core.Secrets(system.Namespace).DeleteCollection(ctx, now, all),
		core.ServiceAccounts(system.Namespace).DeleteCollection(ctx, now, all),
		kube.CoordinationV1().Leases(system.Namespace).DeleteCollection(ctx, now, all),
		rbac.RoleBindings(system.Namespace).DeleteCollection(ctx, now, all),
		rbac.Roles(system.Namespace).DeleteCollection(ctx, now, all),
		rbac.ClusterRoleBindings().DeleteCollection(ctx, now, metav1.ListOptions{LabelSelector: peer.LabelReader}),
		rbac.ClusterRoleBindings().DeleteCollection(ctx, now, metav1.ListOptions{FieldSelector: "metadata.name=" + peer.Account}),
		rbac.ClusterRoles().DeleteCollection(ctx, now, metav1.ListOptions{FieldSelector: "metadata.name=" + peer.Account}),
	)
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

// StartController runs the controller of a cluster, and waits until it is ready and has announced its ID.
// It ends with the test.
func (w *World) StartController(id string, flags ...string) {
	w.t.Helper()
	program, err := binaries.Program("multicluster-controller")
	if err != nil {
		w.t.Fatal(err)
	}
	c := w.Clusters[id]
	port, err := kube.FreePort()
	if err != nil {
		w.t.Fatal(err)
	}
	probes := fmt.Sprintf("127.0.0.1:%d", port)
	args := append([]string{
		"--kubeconfig=" + c.Kubeconfig, "--namespace=" + system.Namespace, "--cluster-id=" + id,
		"--metrics-bind-address=0", "--health-probe-bind-address=" + probes,
	}, flags...)
	ready := func(ctx context.Context) error {
		_, err := binaries.Get(ctx, "http://"+probes+"/readyz")
		return err
	}
	if c.controller, err = c.Beside(w.t.Context(), ready, program, args...); err != nil {
		w.t.Fatalf("start the controller of %s: %v", id, err)
	}
	w.t.Cleanup(c.controller.Stop)
	kube.Eventually(w.t, id+" announces its ID", func() error {
		found, err := system.ReadIdentity(w.t.Context(), c.Kube)
		if err == nil && found.ID != id {
			err = fmt.Errorf("it announces %q", found.ID)
		}
		return err
	})
}

// StopController ends the controller of a cluster.
func (w *World) StopController(id string) { w.Clusters[id].controller.Stop() }

// Announce does what a controller does with its ID, where a test needs no controller. It announces no heartbeat. Without an ID, it takes
// the announcement back.
func (w *World) Announce(context, id string) {
	w.t.Helper()
	leases := w.Clusters[context].Kube.CoordinationV1().Leases(system.Namespace)
	err := leases.Delete(w.t.Context(), member.Name, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		err = nil
		if id != "" {
			lease, _ := member.Announcement{ID: id}.Lease(system.Namespace, time.Minute)
			lease.Spec.RenewTime = nil
			_, err = leases.Create(w.t.Context(), lease, metav1.CreateOptions{})
		}
	}
	if err != nil {
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
	out, err := binaries.KubectlWith(w.t.Context(), w.Kubeconfig, "", append([]string{"--context", id}, args...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// Path is the PATH of a user who has kubectl and the plugin.
func Path(t testing.TB) string {
	t.Helper()
	built, err := kube.Build(context.WithoutCancel(t.Context()), os.Stderr, "kubectl") // also in a Cleanup
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := binaries.Program("kubectl-multicluster")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{filepath.Dir(plugin), filepath.Dir(built["kubectl"]), os.Getenv("PATH")}, string(os.PathListSeparator))
}

// Shell runs a command that was printed, as a user does: pasted into a shell. Manifests come from this checkout.
func Shell(t testing.TB, kubeconfig, command string) {
	t.Helper()
	deploy := filepath.Join(binaries.Root(), "deploy") + "/"
	command = strings.NewReplacer("https://github.com/clusterset-dns/multicluster//deploy/", deploy, "?ref=main", "").Replace(command)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", command) //nolint:gosec // a command of ours
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+Path(t), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+kubeconfig+".cache")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// Disguise lets a context lead to the API server of a cluster, as its administrator, and changes the answers. It ends with the returned
// function, or with the test.
func (w *World) Disguise(t testing.TB, context, id string, change func(*http.Response) error) (undo func()) {
	t.Helper()
	config := w.Clusters[id].Config
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	front := httputil.NewSingleHostReverseProxy(target)
	if front.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	front.ModifyResponse, front.ErrorLog = change, log.New(io.Discard, "", 0)
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	cluster, its := w.Config.Clusters[context], w.Config.Contexts[context]
	w.Config.Clusters[context], w.Config.Contexts[context] = &api.Cluster{Server: server.URL}, &api.Context{Cluster: context}
	w.WriteConfig()
	return func() {
		w.Config.Clusters[context], w.Config.Contexts[context] = cluster, its
		if its == nil {
			delete(w.Config.Clusters, context)
			delete(w.Config.Contexts, context)
		}
		w.WriteConfig()
	}
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
