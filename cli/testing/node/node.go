// Package node is a node for tests: it forwards ports of pods to loopback, and shows their logs. The API
// server takes it for a kubelet. It runs nothing.
package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// Name is the name of the Node.
const Name = "node"

// Node is a small part of a kubelet.
type Node struct {
	mu    sync.Mutex
	ports map[string]string // namespace/pod: the address on loopback of its only port
	logs  map[string]string // namespace/pod: what `kubectl logs` shows
}

// Start starts a node and registers it with an API server. It ends with the test.
func Start(t testing.TB, kube kubernetes.Interface) *Node {
	t.Helper()
	n := &Node{ports: map[string]string{}, logs: map[string]string{}}
	Register(t, kube, n)
	return n
}

// Register starts a node that answers the API server by a handler, in the place of Node's.
func Register(t testing.TB, kube kubernetes.Interface, handler http.Handler) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := server.Listener.Addr().(*net.TCPAddr)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name}}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kube.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	patch := fmt.Sprintf(`{"status": {"addresses": [{"type": "InternalIP", "address": %q}], "daemonEndpoints": {"kubeletEndpoint": {"Port": %d}}}}`, at.IP, at.Port)
	if _, err := kube.CoreV1().Nodes().Patch(t.Context(), Name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// Serve lets a pod's only port be an address on loopback. "" means that the pod does not listen.
func (n *Node) Serve(namespace, pod, address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports[namespace+"/"+pod] = address
}

// Log sets the log of a pod.
func (n *Node) Log(namespace, pod, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logs[namespace+"/"+pod] = text
}

// ServeHTTP answers the API server as a kubelet does.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) < 3 {
		http.NotFound(w, r)
		return
	}
	pod := parts[1] + "/" + parts[2]
	switch parts[0] {
	case "portForward":
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, n, pod, "", options, time.Minute, time.Minute, []string{portforward.ProtocolV1Name})
	case "containerLogs":
		n.mu.Lock()
		defer n.mu.Unlock()
		_, _ = io.WriteString(w, n.logs[pod])
	default:
		http.NotFound(w, r)
	}
}

// PortForward connects a stream with the pod's port.
func (n *Node) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	n.mu.Lock()
	address := n.ports[pod]
	n.mu.Unlock()
	if address == "" {
		return fmt.Errorf("connect to port %s of pod %s: connection refused", strconv.Itoa(int(port)), pod)
	}
	connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	go func() { _, _ = io.Copy(connection, stream) }()
	_, err = io.Copy(stream, connection)
	return err
}
