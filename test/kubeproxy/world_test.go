// Package kubeproxy shows where traffic goes: an API server, the controller, CoreDNS and kube-proxy run in one network
// namespace. The tests look at what kube-proxy has programmed, and at what answers, not at what the API server has.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	members "github.com/clusterset-dns/multicluster/test/world"
)

var shared = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
	return errors.Join(c.InstallCRDs(ctx, kube.BothVersions), c.StartKubeProxy(ctx))
}}

// TestMain gives all tests one network with one kube-proxy.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(kube.MainInNetNS(m, shared.Main))
}

// world is a namespace of a test's own in the shared cluster, and a controller that the test starts and ends.
type world struct {
	*testing.T
	cluster    *kube.Cluster
	namespace  string
	admin      client.Client
	controller *kube.Program
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, cluster: shared.Cluster(t)}
	w.namespace = kube.Namespace(t, w.cluster)
	var err error
	if w.admin, err = client.New(w.cluster.Config, client.Options{Scheme: members.Scheme}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.stop)
	return w
}

// start starts the controller as the cluster c1 of a clusterset.
func (w *world) start() { w.startWith("--cluster-id=c1") }

func (w *world) startWith(flags ...string) {
	w.Helper()
	var err error
	if w.controller, err = binaries.StartController(w.Context(), w.cluster, flags...); err != nil {
		w.Fatal(err)
	}
}

// stop kills the controller. The next one does not wait until its Lease expires.
func (w *world) stop() {
	if w.controller == nil {
		return
	}
	w.controller.Stop()
	w.controller = nil
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: members.SystemNamespace, Name: "multicluster-controller.clusterset-dns.io"}}
	if err := w.admin.Delete(context.WithoutCancel(w.Context()), lease); client.IgnoreNotFound(err) != nil {
		w.Error(err)
	}
}

func (w *world) apply(text string) {
	w.Helper()
	if err := w.cluster.Apply(w.Context(), w.namespace, text); err != nil {
		w.Fatal(err)
	}
}

func (w *world) delete(text string) {
	w.Helper()
	if err := w.cluster.Delete(w.Context(), w.namespace, text); err != nil {
		w.Fatal(err)
	}
}

func (w *world) slice(name string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// patch patches an object of the namespace.
func (w *world) patch(object client.Object, text string) {
	w.Helper()
	if err := w.admin.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		w.Fatal(err)
	}
}

// ours are the names of the controller's slices of foo that belong to a Service.
func (w *world) ours(service string) ([]string, error) {
	var all discoveryv1.EndpointSliceList
	err := w.admin.List(w.Context(), &all, client.InNamespace(w.namespace), client.MatchingLabels{
		mcsv1beta1.LabelServiceName: "foo", discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "multicluster-controller",
	})
	var names []string
	for _, slice := range all.Items {
		names = append(names, slice.Name)
	}
	return names, err
}

// endpointPattern is an endpoint in the chain of a Service, which is named after the Service's namespace, name and port:
// "dnat ip to numgen random mod 2 map { 0 : 10.99.0.11 . 8080, 1 : 10.99.0.12 . 8080 }", or "dnat to 10.99.0.11:8080" for a single one.
var endpointPattern = regexp.MustCompile(`(?:: |dnat to )(\d+\.\d+\.\d+\.\d+)(?: \. |:)\d+`)

// rules is what kube-proxy has programmed.
func (w *world) rules() (string, error) {
	text, err := exec.CommandContext(w.Context(), "nft", "list", "table", "ip", "kube-proxy").CombinedOutput()
	return string(text), err
}

// serves waits until kube-proxy sends traffic of a Service to exactly these addresses.
func (w *world) serves(service string, addresses ...string) {
	w.Helper()
	kube.Eventually(w.T, fmt.Sprintf("kube-proxy has %v for %s", addresses, service), func() error {
		text, err := w.rules()
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, chain := range strings.Split(text, "\tchain ") {
			name, body, _ := strings.Cut(chain, " {")
			// A chain that nothing leads to any more is deleted later.
			if strings.Contains(name, "-"+w.namespace+"/"+service+"/") && strings.Contains(text, "goto "+name) {
				for _, match := range endpointPattern.FindAllStringSubmatch(body, -1) {
					found[match[1]] = true
				}
			}
		}
		for _, address := range addresses {
			if !found[address] {
				return fmt.Errorf("%s is missing of %v", address, found)
			}
		}
		if len(found) != len(addresses) {
			return fmt.Errorf("it has %v", found)
		}
		return nil
	})
}

// clusterIP is that of a Service.
func (w *world) clusterIP(service string) string {
	w.Helper()
	found := new(corev1.Service)
	if err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: service}, found); err != nil {
		w.Fatal(err)
	}
	return found.Spec.ClusterIP
}

// hear connects and returns the server's text. A packet without a matching rule is lost, so a short
// timeout lets the caller retry sooner.
func hear(ctx context.Context, patience time.Duration, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	deadline, _ := ctx.Deadline()
	_ = c.SetReadDeadline(deadline)
	text, err := io.ReadAll(c)
	return string(text), err
}
