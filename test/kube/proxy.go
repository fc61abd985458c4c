package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

var errNotInside = errors.New("kube-proxy would change this machine's own packet filter: use it within InNetNS only")

// Addresses of the only node in a network made by InNetNS. Endpoints there may have any address of NodeNetwork, or one of
// fd00:99::1 to fd00:99::9: they all belong to the loopback interface, because the API refuses endpoints in 127.0.0.0/8.
const (
	NodeIP      = "10.99.0.1"
	NodeIPv6    = "fd00:99::1"
	NodeNetwork = "10.99.0.0/24"
)

const nodeName = "node"

// StartKubeProxy makes ClusterIPs carry traffic, with nftables, in a network made by InNetNS. It
// returns when kube-proxy is healthy. Rules for a Service follow soon after the Service.
func (c *Cluster) StartKubeProxy(ctx context.Context) error {
	if !insideNetNS() {
		return errNotInside
	}
	programs, err := c.programs(ctx, "kube-proxy")
	if err != nil {
		return err
	}
	if err := c.makeNode(ctx); err != nil {
		return fmt.Errorf("create the node of kube-proxy: %w", err)
	}
	return retryBind(ctx, func(ctx context.Context) error {
		health, err := c.writeProxyConfig()
		if err != nil {
			return err
		}
		if c.proxy, err = run(c.dir, programs["kube-proxy"], "--config=proxy.yaml"); err != nil {
			return err
		}
		return c.proxy.answers(ctx, http.DefaultClient, "http://"+health+"/healthz")
	})
}

// makeNode creates the node that kube-proxy waits for to learn its own addresses.
func (c *Cluster) makeNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: NodeIP}, {Type: corev1.NodeInternalIP, Address: NodeIPv6},
		}},
	}, metav1.CreateOptions{})
	return err
}

// writeProxyConfig gives the address where kube-proxy will tell its health.
func (c *Cluster) writeProxyConfig() (health string, err error) {
	var addresses [2]string
	for i := range addresses {
		port, err := FreePort()
		if err != nil {
			return "", err
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return addresses[0], WriteProxyConfig(filepath.Join(c.dir, "proxy.yaml"), map[string]any{
		"clientConnection":   map[string]any{"kubeconfig": c.Kubeconfig},
		"hostnameOverride":   nodeName,
		"healthzBindAddress": addresses[0],
		"metricsBindAddress": addresses[1],
		"nodePortAddresses":  []string{"127.0.0.0/8"},
		"nftables":           map[string]any{"minSyncPeriod": "10ms"}, // a second otherwise
	})
}

// WriteProxyConfig adds to a configuration of kube-proxy what all have.
func WriteProxyConfig(path string, config map[string]any) error {
	config["apiVersion"], config["kind"], config["mode"] = "kubeproxy.config.k8s.io/v1alpha1", "KubeProxyConfiguration", "nftables"
	// Limits of connection tracking belong to the machine: who is root in a namespace only may not set them.
	config["conntrack"] = map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
