package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestKubeProxyIsRefusedOutsideItsOwnNetwork(t *testing.T) {
	if err := new(Cluster).StartKubeProxy(t.Context()); !errors.Is(err, errNotInside) {
		t.Fatalf("%v; want %v", err, errNotInside)
	}
}

// TestClusterIPCarriesTraffic proves the whole chain: a Service without selector and a hand-made slice become a ClusterIP, in both
// families, behind which a server answers.
func TestClusterIPCarriesTraffic(t *testing.T) {
	InNetNS(t, func(t *testing.T) {
		c := New(t, Options{ServiceCIDRs: "10.0.0.0/24,fd00:10::/112"})
		if err := c.StartKubeProxy(t.Context()); err != nil {
			t.Fatal(err)
		}
		namespace := Namespace(t, c)
		service := makeService(t, c, namespace)
		for i, backend := range []string{"10.99.0.7", "fd00:99::7"} {
			port := Greet(t, net.JoinHostPort(backend, "0"), backend)
			makeSlice(t, c, namespace, backend, port)
			address := net.JoinHostPort(service.Spec.ClusterIPs[i], "80")
			Eventually(t, "dial "+address, func() error { return hear(t.Context(), address, backend) })
		}
	})
}

// hear connects and wants to hear exactly the given text. A packet that no rule took is lost: hence the short patience.
func hear(ctx context.Context, address, want string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	text, err := io.ReadAll(connection)
	if err == nil && string(text) != want {
		err = fmt.Errorf("%q answered", text)
	}
	return err
}

func makeService(t *testing.T, c *Cluster, namespace string) *corev1.Service {
	t.Helper()
	both := corev1.IPFamilyPolicyRequireDualStack
	service, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{IPFamilyPolicy: &both, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func makeSlice(t *testing.T, c *Cluster, namespace, address string, port int32) {
	t.Helper()
	family := discoveryv1.AddressTypeIPv4
	if net.ParseIP(address).To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	name, tcp := "", corev1.ProtocolTCP
	_, err := kubernetes.NewForConfigOrDie(c.Config).DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{GenerateName: "web-", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOwnNetworkIsNotTheMachines: the test is root there, and sees nothing but its own loopback interface.
func TestOwnNetworkIsNotTheMachines(t *testing.T) {
	InNetNS(t, func(t *testing.T) {
		interfaces, err := net.Interfaces()
		if err != nil || len(interfaces) != 1 || os.Geteuid() != 0 {
			t.Fatalf("interfaces %v, user %d, %v", interfaces, os.Geteuid(), err)
		}
	})
}

func TestFailureInsideIsSeenOutside(t *testing.T) {
	if insideNetNS() {
		t.Fatal("failed as wanted")
	}
	output, err := runAgain(t)
	if _, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(output, "failed as wanted") {
		t.Fatalf("%v: %s", err, output)
	}
}
