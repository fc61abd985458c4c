package check_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/cli/check"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/test/kube"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares an output with a file. The version of Kubernetes is not a part of the test.
func golden(t *testing.T, w *world.World, name, got string) {
	t.Helper()
	served, err := w.Clusters["member1"].Kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	got = strings.ReplaceAll(got, served.GitVersion, "VERSION")
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("%s differs (%v), -update rewrites it:\n%s", path, err, got)
	}
}

// fault makes one check fail or warn.
type fault struct {
	id     string
	result check.Result
	name   string
	// make makes the fault in member1, and returns what removes it. If that is nil, the fix of the check
	// is executed.
	make func(t *testing.T, w *world.World) (undo func())
	// after is what a controller or a kubelet would do after the fix.
	after func(t *testing.T, w *world.World)
}

func member1(w *world.World) *world.Cluster { return w.Clusters["member1"] }

// unready makes a fault of replicas.
func unready(namespace, name string) func(*testing.T, *world.World) func() {
	return func(t *testing.T, w *world.World) func() {
		ready(t, member1(w), namespace, name, 0)
		return func() { ready(t, member1(w), namespace, name, 2) }
	}
}

func image(namespace, name, container, wrong, right string) func(*testing.T, *world.World) func() {
	return func(t *testing.T, w *world.World) func() {
		set := func(image string) {
			patch := fmt.Sprintf(`{"spec": {"template": {"spec": {"containers": [{"name": %q, "image": %q}]}}}}`, container, image)
			if _, err := member1(w).Kube.AppsV1().Deployments(namespace).Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		set(wrong)
		return func() { set(right) }
	}
}

func corefileOf(name, text, right string) func(*testing.T, *world.World) func() {
	return func(t *testing.T, w *world.World) func() {
		setCorefile(t, member1(w), name, text)
		if right == "" {
			return nil
		}
		return func() { setCorefile(t, member1(w), name, right) }
	}
}

var readEverything = `[{apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}, {apiGroups: [""], resources: [pods, pods/portforward], verbs: [create]}]`

var faults = []fault{
	{check.APIServer, check.Failed, "nothing listens", func(_ *testing.T, w *world.World) func() {
		before := w.Config.Clusters["member1"].Server
		w.Config.Clusters["member1"].Server = "https://127.0.0.1:1"
		w.WriteConfig()
		return func() { w.Config.Clusters["member1"].Server = before; w.WriteConfig() }
	}, nil},
	{check.KubernetesVersion, check.Warning, "an old Kubernetes", func(t *testing.T, w *world.World) func() {
		return w.Disguise(t, "member1", "member1", func(r *http.Response) error {
			if r.Request.URL.Path == "/version" {
				r.Body = io.NopCloser(strings.NewReader(`{"gitVersion": "v1.29.4"}`))
				r.ContentLength = -1
				r.Header.Del("Content-Length")
			}
			return nil
		})
	}, nil},
	{check.ClockSkew, check.Failed, "a clock is an hour late", func(t *testing.T, w *world.World) func() {
		return w.Disguise(t, "member1", "member1", func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			return nil
		})
	}, nil},
	{check.Rights, check.Failed, "no port-forward", func(t *testing.T, w *world.World) func() {
		return account(t.Context(), t, w, "member1", "no-portforward", strings.ReplaceAll(readEverything, ", pods/portforward", ""))
	}, nil},
	{check.Rights, check.Warning, "a user who only reads", func(t *testing.T, w *world.World) func() {
		return account(t.Context(), t, w, "member1", "reader", readEverything)
	}, nil},
	{check.SameCluster, check.Warning, "two contexts of one cluster", func(_ *testing.T, w *world.World) func() {
		again := *w.Config.Contexts["member1"]
		w.Config.Contexts["again"] = &again
		w.WriteConfig()
		return func() { delete(w.Config.Contexts, "again"); w.WriteConfig() }
	}, nil},
	{check.CRDs, check.Failed, "no CRD", func(t *testing.T, w *world.World) func() {
		if err := member1(w).RemoveCRDs(t.Context()); err != nil {
			t.Fatal(err)
		}
		return nil
	}, nil},
	{check.Controller, check.Failed, "no ready replica", unready("multicluster-system", "multicluster-controller"), nil},
	{check.VersionSkew, check.Warning, "another image", image("multicluster-system", "multicluster-controller", "controller", "registry.invalid/controller:v0.1.0",
		"registry.invalid/clusterset-dns/multicluster-controller:latest"), nil},
	{check.ClusterID, check.Failed, "no ID", func(_ *testing.T, w *world.World) func() {
		w.Announce("member1", "")
		return nil
	}, func(t *testing.T, w *world.World) {
		d, err := member1(w).Kube.AppsV1().Deployments("multicluster-system").Get(t.Context(), "multicluster-controller", metav1.GetOptions{})
		if err != nil || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--cluster-id=member1") {
			t.Fatalf("%v, %v", d.Spec.Template.Spec.Containers[0].Args, err)
		}
		w.Announce("member1", "member1")
	}},
	{check.ClusterID, check.Failed, "the ID of another cluster", func(_ *testing.T, w *world.World) func() {
		w.Announce("member1", "member2")
		return func() { w.Announce("member1", "member1") }
	}, nil},
	{check.Heartbeat, check.Failed, "an old heartbeat", func(t *testing.T, w *world.World) func() {
		beat(t, member1(w), time.Now().Add(-time.Hour))
		return func() { beat(t, member1(w), time.Now()) }
	}, nil},
	{check.Peers, check.Failed, "a peer that refuses the token", func(t *testing.T, w *world.World) func() {
		peer(t, member1(w), "member2", "False", "Unauthorized", "")
		return func() { peer(t, member1(w), "member2", "True", "Connected", "") }
	}, nil},
	{check.TokenExpiry, check.Failed, "an expired token", func(t *testing.T, w *world.World) func() {
		peer(t, member1(w), "member2", "True", "Connected", time.Now().Add(-time.Hour).Format(time.RFC3339))
		return func() { peer(t, member1(w), "member2", "True", "Connected", "") }
	}, nil},
	{check.TokenExpiry, check.Warning, "a token for an hour", func(t *testing.T, w *world.World) func() {
		peer(t, member1(w), "member2", "True", "Connected", time.Now().Add(time.Hour).Format(time.RFC3339))
		return func() { peer(t, member1(w), "member2", "True", "Connected", "") }
	}, nil},
	{check.SecondDNS, check.Failed, "no ready replica", unready("multicluster-system", "multicluster-dns"), nil},
	{check.ClusterDNS, check.Failed, "no replica is wanted", func(_ *testing.T, w *world.World) func() {
		w.Kubectl("member1", "scale", "deployment", "coredns", "--namespace=kube-system", "--replicas=0")
		return nil
	}, nil},
	{check.CoreDNSVersion, check.Warning, "a stock image with the plugin's line", corefileOf("coredns", strings.Replace(stockCorefile, "    ready\n", "    ready\n    multicluster clusterset.local\n", 1), stockCorefile+forwarding), nil},
	{check.CoreDNSVersion, check.Failed, "an old image with the option of kubernetes", func(t *testing.T, w *world.World) func() {
		one := corefileOf("coredns", strings.Replace(stockCorefile, "       ttl 30\n", "       multicluster clusterset.local\n", 1), stockCorefile+forwarding)(t, w)
		two := image("kube-system", "coredns", "coredns", "registry.k8s.io/coredns/coredns:v1.11.3", "registry.k8s.io/coredns/coredns:v1.14.1")(t, w)
		return func() { one(); two() }
	}, nil},
	{check.Corefile, check.Failed, "no block", corefileOf("coredns", stockCorefile, ""), nil},
	{check.Corefile, check.Failed, "no block, and imports of another ConfigMap", corefileOf("coredns", "import custom/*.server\n"+stockCorefile, ""), nil},
	{check.Corefile, check.Failed, "an old address", corefileOf("coredns", stockCorefile+strings.ReplaceAll(forwarding, secondIP, "10.0.0.201"), ""), nil},
	{check.Corefile, check.Failed, "a block that is not closed", corefileOf("coredns", stockCorefile+"clusterset.local {\n", stockCorefile+forwarding), nil},
	{check.NodeLocal, check.Failed, "no stanza", corefileOf("node-local-dns", "cluster.local:53 {\n    bind 169.254.20.10\n    forward . __PILLAR__CLUSTER__DNS__ {\n        force_tcp\n    }\n}\n", ""), nil},
	{check.KubeProxy, check.Failed, "a node without it", func(t *testing.T, w *world.World) func() {
		proxies(t, member1(w), 0)
		return func() { proxies(t, member1(w), 1) }
	}, nil},
	{check.Networks, check.Failed, "one pod network in both", func(t *testing.T, w *world.World) func() {
		addNode(t, member1(w), "wide", "10.2.0.0/16")
		return func() { removeNode(t, member1(w), "wide") }
	}, nil},
	{check.Networks, check.Failed, "a service network in the other's pod network", func(t *testing.T, w *world.World) func() {
		addNode(t, member1(w), "wide", "10.0.0.0/25")
		return func() { removeNode(t, member1(w), "wide") }
	}, nil},
	{check.Networks, check.Warning, "a Node without a range", func(t *testing.T, w *world.World) func() {
		addNode(t, member1(w), "bare")
		return func() { removeNode(t, member1(w), "bare") }
	}, nil},
}

func addNode(t *testing.T, c *world.Cluster, name string, ranges ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	if len(ranges) > 0 {
		node.Spec.PodCIDR = ranges[0]
	}
	if _, err := c.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func removeNode(t *testing.T, c *world.Cluster, name string) {
	t.Helper()
	if err := c.Kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Each fault makes one check fail, and no other. Its fix, where it is a command, works.
func TestFaults(t *testing.T) {
	w := healthy(t)
	golden(t, w, "healthy.txt", w.Run("check").Out)
	for _, f := range faults {
		t.Run(f.id+", "+f.name, func(t *testing.T) {
			for _, c := range w.Clusters {
				beat(t, c, time.Now())
			}
			undo := f.make(t, w)
			r := run(t, w)
			wrong := append(of(r, check.Failed), of(r, check.Warning)...)
			if got := ids(wrong); !slices.Equal(got, []string{f.id}) || wrong[0].Result != f.result {
				t.Fatalf("wrong are %v, want %s to be %s:\n%+v", got, f.id, f.result, wrong)
			}
			for _, c := range wrong {
				if len(c.Fix) == 0 && c.Advice == "" || !strings.HasPrefix(c.Link, "https://") {
					t.Errorf("%s has no fix, or no link: %+v", c.ID, c)
				}
			}
			if undo == nil {
				for _, line := range wrong[0].Fix {
					world.Shell(t, w.Kubeconfig, line)
				}
				if f.after != nil {
					f.after(t, w)
				}
			} else {
				undo()
			}
			kube.Eventually(t, "nothing is wrong after the fix", func() error {
				r := run(t, w)
				if wrong := append(of(r, check.Failed), of(r, check.Warning)...); len(wrong) > 0 {
					return fmt.Errorf("%+v", wrong)
				}
				return nil
			})
		})
	}
}

// With several faults, the output names all of them. A user without rights gets unknown, not ok.
func TestSickPair(t *testing.T) {
	w := healthy(t)
	c := member1(w)
	setCorefile(t, c, "coredns", stockCorefile)
	ready(t, c, "multicluster-system", "multicluster-controller", 0)
	peer(t, c, "member2", "False", "Unauthorized", "2001-02-03T04:05:06Z")
	beat(t, c, time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	addNode(t, c, "wide", "10.2.0.0/16")
	defer removeNode(t, c, "wide")
	defer account(t.Context(), t, w, "member2", "nobody", "[]")()
	got := w.Run("check")
	golden(t, w, "sick.txt", got.Out)
	if got.Status != 1 {
		t.Errorf("the exit status is %d", got.Status)
	}
	r := run(t, w)
	for _, c := range r.Checks {
		if c.Cluster == "member2" && c.Result == check.OK && c.ID != check.APIServer && c.ID != check.KubernetesVersion && c.ID != check.ClockSkew {
			t.Errorf("%s is ok for a user who can read nothing: %s", c.ID, c.Detail)
		}
	}
}

// Before an installation, nothing of it is missed, also where a platform limits the priority classes. A
// limited class of the installed pods is found, and the fix works. The API server is one of its own: the limit is a flag of it.
func TestPreAndPriorityClass(t *testing.T) {
	c := kube.New(t, kube.Options{APIServerFlags: kube.LimitCriticalPods(t)})
	w := world.Of(t, map[string]*kube.Cluster{"new": c}, "new")
	r := run(t, w, "--pre")
	if failed := of(r, check.Failed); len(failed) > 0 {
		t.Errorf("before the installation: %+v", failed)
	}
	if slices.ContainsFunc(r.Checks, func(c check.Check) bool { return c.ID == check.Controller || c.ID == check.Peers }) {
		t.Errorf("--pre expects an installation: %v", ids(r.Checks))
	}
	class := func(fields string) check.Check {
		t.Helper()
		if err := c.Apply(t.Context(), "multicluster-system", strings.ReplaceAll(controllerWith, "FIELDS", fields)); err != nil {
			t.Fatal(err)
		}
		all := run(t, w).Checks
		return all[slices.IndexFunc(all, func(c check.Check) bool { return c.ID == check.PriorityClass })]
	}
	w.Kubectl("new", "create", "namespace", "multicluster-system")
	if err := c.Apply(t.Context(), "multicluster-system", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}"); err != nil {
		t.Fatal(err)
	}
	if got := class(""); got.Result != check.OK {
		t.Errorf("without a class: %+v", got)
	}
	if got := class("priorityClassName: missing"); got.Result != check.Unknown || !strings.Contains(got.Detail, "no PriorityClass with name missing") {
		t.Errorf("with a class that does not exist: %+v", got)
	}
	got := class("priorityClassName: system-cluster-critical")
	if got.Result != check.Failed {
		t.Fatalf("with a limited class: %+v", got)
	}
	for _, line := range got.Fix {
		world.Shell(t, w.Kubeconfig, line)
	}
	// kube-controller-manager does this.
	if err := fillQuota(t, c); err != nil {
		t.Fatal(err)
	}
	if got := class("priorityClassName: system-cluster-critical"); got.Result != check.OK {
		t.Errorf("after the fix: %+v", got)
	}
}

const controllerWith = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: multicluster-controller}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: controller, image: a}], FIELDS}
`

// Each check has a row in the troubleshooting page.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := bytes.Cut(text, []byte("\n## Checks\n"))
	if !ok {
		t.Fatal("docs/troubleshooting.md has no section Checks")
	}
	for _, id := range check.IDs {
		if !bytes.Contains(section, []byte("\n| `"+id+"` |")) {
			t.Errorf("the section Checks has no row for %s", id)
		}
	}
}
