package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Shared is one cluster for all tests of a package. The first test that asks starts it, so that a run of the other tests alone
// costs nothing:
//
//	var shared kube.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		cluster := shared.Cluster(t)
//		namespace := kube.Namespace(t, cluster)
type Shared struct {
	Options Options
	// Prepare runs once, after the start: for CRDs that all the tests need.
	Prepare func(context.Context, *Cluster) error

	once    sync.Once
	cluster *Cluster
	err     error

	door    sync.Once // of InNetNS
	doorErr error
}

// startTimeout includes a first build of the programs.
const startTimeout = 15 * time.Minute

// Main runs the tests, stops the cluster if one was started, and gives the exit code.
func (s *Shared) Main(m *testing.M) int { return Main(m, s) }

// Main is for packages whose tests share several clusters.
func Main(m *testing.M, all ...*Shared) int {
	idle.open = true
	code := m.Run()
	for _, s := range all {
		idle.clusters = append(idle.clusters, s.cluster)
	}
	for _, c := range idle.clusters {
		if c == nil {
			continue
		}
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the cluster:", err)
			code = max(code, 1)
		}
	}
	return code
}

// idle are the clusters of tests that have ended, for tests of the same process: a start takes a core for seconds, a reset a few
// milliseconds. Main ends them; without it, each test has a cluster of its own.
var idle struct {
	sync.Mutex
	open     bool
	clusters []*Cluster
}

// takeIdle returns a cluster with these options, or nil.
func takeIdle(options Options) *Cluster {
	idle.Lock()
	defer idle.Unlock()
	for i, c := range slices.Backward(idle.clusters) {
		if reflect.DeepEqual(c.options, options.withDefaults()) {
			idle.clusters = slices.Delete(idle.clusters, i, i+1)
			return c
		}
	}
	return nil
}

// release keeps a cluster for the next test, as it was at its beginning, or ends it.
func release(ctx context.Context, t testing.TB, c *Cluster) error {
	if !idle.open || t.Failed() || c.first.values == nil || c.etcd.Ended() != nil || c.apiserver.Ended() != nil || c.proxy != nil {
		return c.Stop()
	}
	if err := c.reset(ctx); err != nil {
		return errors.Join(fmt.Errorf("reset the cluster: %w", err), c.Stop())
	}
	idle.Lock()
	defer idle.Unlock()
	idle.clusters = append(idle.clusters, c)
	return nil
}

// NotShort skips a test that starts an API server, or has a network of its own, where tests run with -short, as in `make check`.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server: not with -short")
	}
}

// Cluster is the package's cluster. Parallel tests may ask at the same time.
func (s *Shared) Cluster(t testing.TB) *Cluster {
	t.Helper()
	NotShort(t)
	s.once.Do(func() {
		// Not the test's own context: the cluster outlives the test that happened to be the first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		if s.cluster, s.err = Start(ctx, s.Options); s.err == nil && s.Prepare != nil {
			s.err = s.Prepare(ctx, s.cluster)
		}
	})
	if s.err != nil {
		t.Fatalf("start a cluster: %v", s.err)
	}
	return s.cluster
}

// New gives a cluster to one test alone: a new one, or one that a test before has used, as it was at its beginning.
func New(t testing.TB, options Options) *Cluster {
	t.Helper()
	NotShort(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c := takeIdle(options)
	if c == nil {
		var err error
		if c, err = Start(ctx, options); err == nil && idle.open {
			err = c.begin(ctx)
		}
		if err != nil {
			t.Fatalf("start a cluster: %v", err)
		}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := release(ctx, t, c); err != nil {
			t.Errorf("end the cluster: %v", err)
		}
	})
	return c
}

// Namespace makes a namespace for this test alone, with a name that was never used before, and deletes it at the test's end.
// Without the controller manager it stays, terminating, with what is in it: so tests list inside their own namespace only.
func Namespace(t testing.TB, c *Cluster) string {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Namespaces()
	made, err := client.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		_ = client.Delete(ctx, made.Name, metav1.DeleteOptions{})
	})
	return made.Name
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// namespacePrefix leaves room for what the API server appends, and for the names that DNS tests build from a namespace.
func namespacePrefix(test string) string {
	const length = 40
	label := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(test), "-"), "-")
	return strings.TrimRight(label[:min(length, len(label))], "-") + "-"
}
