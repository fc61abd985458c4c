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
	"github.com/clusterset-dns/multicluster/test/world"
)

var shared = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
	return errors.Join(c.InstallCRDs(ctx, kube.BothVersions), c.StartKubeProxy(ctx))
}}

// TestMain gives all tests one network with one kube-proxy.
func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(kube.MainInNetNS(m, shared.Main))
}

// stage is a namespace of a test's own in the shared cluster, c1, and a controller that the test starts and ends.
type stage struct {
	*world.Namespace
	controller *kube.Program
	dns        string // the address of a CoreDNS, if the test has started it
}

func newStage(t *testing.T) *stage {
	t.Helper()
	c := shared.Cluster(t)
	admin, err := client.New(c.Config, client.Options{Scheme: world.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Namespace: world.Of(t, &world.Cluster{Cluster: c, ID: "c1", Admin: admin}).Namespace()}
	t.Cleanup(s.stop)
	return s
}

// start starts the controller as the cluster c1 of a clusterset.
func (s *stage) start() { s.startWith("--cluster-id=c1") }

func (s *stage) startWith(flags ...string) {
	s.Helper()
	var err error
	s.controller, err = binaries.StartController(s.Context(), s.Cluster("c1").Cluster, flags...)
	s.Must(err)
}

// stop kills the controller. The next one does not wait until its Lease expires.
func (s *stage) stop() {
	if s.controller == nil {
		return
	}
	s.controller.Stop()
	s.controller = nil
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: "multicluster-controller.clusterset-dns.io"}}
	s.Check(client.IgnoreNotFound(s.Admin("c1").Delete(s.Late(), lease)))
}

// slice is one to be patched or deleted.
func (s *stage) slice(name string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name}}
}

// patch patches an object of the namespace.
func (s *stage) patch(object client.Object, text string) {
	s.Helper()
	s.Must(s.Admin("c1").Patch(s.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))))
}

// removed deletes an object that somebody else may have deleted.
func (s *stage) removed(object client.Object) {
	s.Helper()
	s.Must(client.IgnoreNotFound(s.Admin("c1").Delete(s.Context(), object)))
}

// ours waits until so many of the controller's slices of foo belong to a Service, and gives their names.
func (s *stage) ours(service string, want int) (names []string) {
	s.Helper()
	s.Until(fmt.Sprintf("%d slices belong to %s", want, service), func() error {
		var all discoveryv1.EndpointSliceList
		err := s.Admin("c1").List(s.Context(), &all, client.InNamespace(s.Name), client.MatchingLabels{
			mcsv1beta1.LabelServiceName: "foo", discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "multicluster-controller",
		})
		names = nil
		for _, slice := range all.Items {
			names = append(names, slice.Name)
		}
		if err == nil && len(names) != want {
			err = fmt.Errorf("they are %v", names)
		}
		return err
	})
	return names
}

// endpointPattern is an endpoint in the chain of a Service, which is named after the Service's namespace, name and port:
// "dnat ip to numgen random mod 2 map { 0 : 10.99.0.11 . 8080, 1 : 10.99.0.12 . 8080 }", or "dnat to 10.99.0.11:8080" for a single one.
var endpointPattern = regexp.MustCompile(`(?:: |dnat to )(\d+\.\d+\.\d+\.\d+)(?: \. |:)\d+`)

// rules is what kube-proxy has programmed.
func (s *stage) rules() (string, error) {
	text, err := exec.CommandContext(s.Context(), "nft", "list", "table", "ip", "kube-proxy").CombinedOutput()
	return string(text), err
}

// serves waits until kube-proxy sends traffic of a Service to exactly these addresses.
func (s *stage) serves(service string, addresses ...string) {
	s.Helper()
	s.Until(fmt.Sprintf("kube-proxy has %v for %s", addresses, service), func() error {
		text, err := s.rules()
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for _, chain := range strings.Split(text, "\tchain ") {
			name, body, _ := strings.Cut(chain, " {")
			// A chain that nothing leads to any more is deleted later.
			if strings.Contains(name, "-"+s.Name+"/"+service+"/") && strings.Contains(text, "goto "+name) {
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
func (s *stage) clusterIP(service string) string {
	s.Helper()
	return world.Live(s.Namespace, "c1", new(corev1.Service), service).Spec.ClusterIP
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
