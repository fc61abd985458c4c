package verify_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/exec"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/clusterset-dns/multicluster/cli/testing/node"
	"github.com/clusterset-dns/multicluster/cli/testing/world"
	"github.com/clusterset-dns/multicluster/cli/verify"
)

// kubelet is a Node whose pods run nothing. It also does what kube-scheduler and kube-controller-manager
// do. The commands in its pods see the imports of the cluster.
type kubelet struct {
	cluster *world.Cluster
	// starts is false if pods do not become ready, resolves if names are not found.
	starts, resolves bool
	answers          int // so many requests are answered, then connections fail

	mu   sync.Mutex
	pods map[string]*corev1.Pod // all that were started
}

func startKubelet(t *testing.T, c *world.Cluster, starts, resolves bool) *kubelet {
	t.Helper()
	k := &kubelet{cluster: c, starts: starts, resolves: resolves, answers: math.MaxInt, pods: map[string]*corev1.Pod{}}
	node.Register(t, c.Kube, k)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go k.loop(ctx, ended)
	t.Cleanup(func() { stop(); <-ended })
	return k
}

// loop runs pods until the test ends.
func (k *kubelet) loop(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		namespaces, err := k.cluster.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: verify.Label})
		if err == nil {
			for i := range namespaces.Items {
				_ = k.run(ctx, namespaces.Items[i].Name) // The next round tries again.
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (k *kubelet) run(ctx context.Context, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := k.cluster.Kube.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := k.publish(ctx, namespace); err != nil {
		return err
	}
	pods := k.cluster.Kube.CoreV1().Pods(namespace)
	all, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		p := &all.Items[i]
		if p.Spec.NodeName == "" {
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
			if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		k.mu.Lock()
		k.pods[namespace+"/"+p.Name] = p
		k.mu.Unlock()
		status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if !k.starts {
			waiting := corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}
			status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "verify", State: corev1.ContainerState{Waiting: &waiting}}}}
		}
		p.Status = status
		if _, err := pods.UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// publish makes an EndpointSlice for each Service. Peers read the Service from it.
func (k *kubelet) publish(ctx context.Context, namespace string) error {
	services, err := k.cluster.Kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range services.Items {
		name := services.Items[i].Name
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}, AddressType: discoveryv1.AddressTypeIPv4,
		}
		if _, err := k.cluster.Kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// started returns the pods that were started.
func (k *kubelet) started() []*corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*corev1.Pod
	for _, p := range k.pods {
		all = append(all, p)
	}
	return all
}

// ServeHTTP answers the API server: /exec/NAMESPACE/POD/CONTAINER.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	options, err := remotecommand.NewOptions(r)
	if parts[0] != "exec" || len(parts) != 4 || err != nil {
		http.NotFound(w, r)
		return
	}
	remotecommand.ServeExec(w, r, k, parts[1], "", parts[3], r.URL.Query()["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer does what getent and curl do.
func (k *kubelet) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, _ io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	switch cmd[0] {
	case "getent":
		labels := strings.Split(cmd[2], ".")
		imports := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceimports"}
		found, err := k.cluster.Dynamic.Resource(imports).Namespace(labels[1]).Get(ctx, labels[0], metav1.GetOptions{})
		if err != nil || !k.resolves {
			return exec.CodeExitError{Err: errors.New("command terminated with exit code 2"), Code: 2}
		}
		ips, _, _ := unstructured.NestedStringSlice(found.Object, "spec", "ips")
		_, err = fmt.Fprintf(out, "%s  %s\n", strings.Join(ips, ""), cmd[2])
		return err
	case "curl":
		if k.answers--; k.answers < 0 {
			_, _ = fmt.Fprintln(errOut, "curl: (7) Failed to connect")
			return exec.CodeExitError{Err: errors.New("command terminated with exit code 7"), Code: 7}
		}
		_, err := fmt.Fprint(out, "0.0042")
		return err
	}
	return exec.CodeExitError{Err: errors.New("command not found"), Code: 127}
}
