package verify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/cli/verify"
	"github.com/clusterset-dns/multicluster/test/kube"
)

func TestMain(m *testing.M) { world.Main(m) }

// patience is for a step that shall fail, and enough for those before it on a slow machine.
const patience = "20s"

var both = []string{"member1", "member2"}

// joined starts two clusters that read each other.
func joined(t *testing.T) *world.World {
	t.Helper()
	w := world.New(t, both...)
	for i, id := range both {
		other := both[1-i]
		text, err := os.ReadFile(w.Clusters[other].Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: other, Labels: map[string]string{"clusterset-dns.io/peer": ""}},
			Data:       map[string][]byte{"kubeconfig": text},
		}
		if _, err := w.Clusters[id].Kube.CoreV1().Secrets("multicluster-system").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.StartController(id)
	}
	return w
}

// left returns the namespaces of the command that still exist.
func left(t *testing.T, w *world.World) []string {
	t.Helper()
	var all []string
	for _, id := range both {
		list, err := w.Clusters[id].Kube.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: verify.Label})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, id+"/"+list.Items[i].Name)
		}
	}
	return all
}

func read(t *testing.T, result world.Result) verify.Report {
	t.Helper()
	var r verify.Report
	if err := json.Unmarshal([]byte(result.Out), &r); err != nil {
		t.Fatalf("%v: %+v", err, result)
	}
	return r
}

func steps(d verify.Direction) string {
	var all []string
	for _, s := range d.Steps {
		all = append(all, fmt.Sprintf("%s %t", s.Name, s.OK))
	}
	return strings.Join(all, ", ")
}

// With real API servers and controllers, the command finds that both directions work, or which step
// does not. In each case it leaves nothing.
func TestVerify(t *testing.T) {
	w := joined(t)
	kubelets := map[string]*kubelet{}
	for _, id := range both {
		kubelets[id] = startKubelet(t, w.Clusters[id], true, true)
	}
	const fine = "start true, export true, import true, resolve true, http true"
	result := w.Run("verify", "member1", "member2", "-o", "json", "--requests", "3")
	r := read(t, result)
	if result.Status != 0 || len(r.Directions) != 2 || steps(r.Directions[0]) != fine || steps(r.Directions[1]) != fine || r.Directions[0].Name == r.Directions[1].Name {
		t.Fatalf("%+v", result)
	}
	if d := r.Directions[1]; d.Requests != 3 || d.Succeeded != 3 || d.Median != 4.2 || d.Server != "member2" || d.Client != "member1" {
		t.Errorf("%+v", d)
	}
	if rest := left(t, w); len(rest) > 0 {
		t.Errorf("what is left: %v", rest)
	}
	for _, k := range kubelets {
		// The API server has admitted it under the Pod Security Standard "restricted".
		if pods := k.started(); len(pods) != 1 || *pods[0].Spec.AutomountServiceAccountToken {
			t.Errorf("%d pods were started, want one without a token", len(pods))
		}
	}

	kubelets["member2"].resolves = false
	result = w.Run("verify", "member1", "member2", "-o", "json", "--timeout", patience)
	r = read(t, result)
	if result.Status != 1 || steps(r.Directions[0]) != "start true, export true, import true, resolve false" || steps(r.Directions[1]) != fine {
		t.Fatalf("a name that is not found: %+v", result)
	}
	want := "kubectl multicluster verify member1 member2 --keep"
	if len(r.Problems) != 1 || r.Problems[0].ID != "VerifyResolve" || !slices.Contains(r.Problems[0].Fix, want) {
		t.Errorf("problems %+v, want the command %s", r.Problems, want)
	}

	kubelets["member2"].resolves, kubelets["member1"].answers = true, 1 // the first one ends the wait for it
	result = w.Run("verify", "member1", "member2")
	if result.Status != 1 || !strings.Contains(result.Out, "VerifyHttp") || !strings.Contains(result.Out, "curl: (7) Failed to connect") {
		t.Errorf("connections that fail: %+v", result)
	}
	if rest := left(t, w); len(rest) > 0 {
		t.Errorf("what is left: %v", rest)
	}

	kubelets["member1"].answers = 1
	if result = w.Run("verify", "member1", "member2", "--keep"); result.Status != 1 || len(left(t, w)) != 2 {
		t.Errorf("--keep: %+v, left are %v", result, left(t, w))
	}
	kubelets["member1"].answers = math.MaxInt
	leftovers(t, w)
}

// leftovers of another run are removed when they are old. Other namespaces with the label stay.
func leftovers(t *testing.T, w *world.World) {
	t.Helper()
	kept := left(t, w)
	for _, id := range both {
		foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "foreign", Labels: map[string]string{verify.Label: "true"}}}
		if _, err := w.Clusters[id].Kube.CoreV1().Namespaces().Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if result := w.Run("verify", "member1", "member2"); result.Status != 0 || len(left(t, w)) != 4 {
		t.Errorf("leftovers that are not old: %+v, left are %v", result, left(t, w))
	}
	var pair []*clusters.Cluster
	for _, id := range both {
		c, err := clusters.New(id, w.Clusters[id].Config)
		if err != nil {
			t.Fatal(err)
		}
		pair = append(pair, c)
	}
	r, err := verify.Run(t.Context(), pair[0], pair[1], verify.Options{
		Image: "image", Server: []string{"serve"}, Timeout: time.Minute, Requests: 1, LeftAfter: time.Nanosecond, Progress: func(string) {},
	})
	slices.Sort(r.Removed)
	if err != nil || !slices.Equal(r.Removed, kept) {
		t.Errorf("removed %v, want %v, %v", r.Removed, kept, err)
	}
	kube.Eventually(t, "the leftovers are gone", func() error {
		if rest := left(t, w); !slices.Equal(rest, []string{"member1/foreign", "member2/foreign"}) {
			return fmt.Errorf("left are %v", rest)
		}
		return nil
	})
	for _, id := range both { // for the next test
		w.Kubectl(id, "delete", "namespace", "foreign")
	}
}

// After Ctrl-C, and when a pod does not start, nothing is left.
func TestNothingIsLeft(t *testing.T) {
	w := world.New(t, both...)
	for _, id := range both {
		w.Announce(id, id)
		startKubelet(t, w.Clusters[id], false, false)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan world.Result, 1)
	go func() { ended <- w.RunContext(ctx, "verify", "member1", "member2") }()
	kube.Eventually(t, "the pods exist", func() error {
		for _, id := range both {
			pods, err := w.Clusters[id].Kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: verify.Label})
			if err != nil || len(pods.Items) != 1 {
				return fmt.Errorf("%s: %d pods, %w", id, len(pods.Items), err)
			}
		}
		return nil
	})
	interrupt()
	if result := <-ended; result.Status != 1 || !strings.Contains(result.Err, "interrupted") {
		t.Errorf("after Ctrl-C: %+v", result)
	}
	if rest := left(t, w); len(rest) > 0 {
		t.Errorf("after Ctrl-C: left are %v", rest)
	}
	result := w.Run("verify", "member1", "member2", "--timeout", patience, "-o", "json")
	if r := read(t, result); result.Status != 1 || len(r.Problems) != 2 || r.Problems[0].ID != "VerifyStart" || !strings.Contains(r.Problems[0].What, "ImagePullBackOff: no such image") {
		t.Errorf("a pod that does not start: %+v", result)
	}
	if rest := left(t, w); len(rest) > 0 {
		t.Errorf("a pod that does not start: left are %v", rest)
	}
}

func TestWrongArguments(t *testing.T) {
	w := world.New(t, "member1")
	again := *w.Config.Contexts["member1"]
	w.Config.Contexts["again"] = &again
	w.WriteConfig()
	result := w.Run("verify", "member1", "again")
	if result.Status != 1 || !strings.Contains(result.Err, "kubectl multicluster check --contexts member1") {
		t.Errorf("without a controller: %+v", result)
	}
	w.Announce("member1", "member1")
	for name, args := range map[string][]string{
		"one context":         {"member1"},
		"a context twice":     {"member1", "member1"},
		"one cluster twice":   {"member1", "again"},
		"an unknown context":  {"member1", "other"},
		"no request":          {"member1", "again", "--requests", "0"},
		"no server":           {"member1", "again", "--server", " "},
		"an unknown format":   {"member1", "again", "-o", "xml"},
		"a wrong flag's type": {"member1", "again", "--timeout", "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			if result := w.Run(append([]string{"verify"}, args...)...); result.Status != 2 || result.Out != "" {
				t.Errorf("%+v", result)
			}
		})
	}
}
