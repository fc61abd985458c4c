package clusters

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	apiPort         = 6443
	proxyHealthPort = 10256
)

// startControlPlane returns once the API server is ready; the programs that work for it follow.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	c.say("the API server is ready")
	_, err := c.run("kube-controller-manager", c.built["kube-controller-manager"],
		"--kubeconfig="+c.path("controller-manager.kubeconfig"),
		"--service-account-private-key-file="+c.path("tokens.key"), "--root-ca-file="+c.path("ca.crt"),
		"--use-service-account-credentials=true", "--allocate-node-cidrs=false", "--leader-elect=false",
		"--kube-api-qps=200", "--kube-api-burst=400", // a cluster starts seconds sooner
		"--flex-volume-plugin-dir="+c.path("volumeplugins"), // made, wherever it is
		"--bind-address=127.0.0.1", "--profiling=false")
	if err != nil || c.options.NoNodes {
		return err
	}
	_, err = c.run("kube-scheduler", c.built["kube-scheduler"],
		"--kubeconfig="+c.path("scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false")
	return err
}

// startEtcd returns once etcd takes connections: it answers them when it has elected itself.
func (c *Cluster) startEtcd(ctx context.Context) error {
	const nobody = "http://127.0.0.1:1" // told to other members, of which there are none
	etcd, err := c.run("etcd", c.built["etcd"],
		"--data-dir="+c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=unix://"+c.path("etcd.sock"), "--advertise-client-urls="+nobody,
		"--listen-peer-urls=unix://"+c.path("peer.sock"), "--initial-advertise-peer-urls="+nobody,
		"--initial-cluster=default="+nobody,
		"--log-level=warn")
	if err != nil {
		return err
	}
	return c.wait(ctx, "wait for etcd", etcd, func(ctx context.Context) error { return dial(ctx, c.path("etcd.sock")) })
}

func dial(ctx context.Context, socket string) error {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return connection.Close()
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	flags := append([]string{c.built["kube-apiserver"],
		"--etcd-servers=unix://" + c.path("etcd.sock"),
		fmt.Sprintf("--secure-port=%d", apiPort), "--advertise-address=" + c.at.node(),
		"--service-cluster-ip-range=" + c.at.services() + "," + c.at.services6(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--client-ca-file=" + c.path("ca.crt"),
		"--tls-cert-file=" + c.path("apiserver.crt"), "--tls-private-key-file=" + c.path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path("tokens.key"), "--service-account-signing-key-file=" + c.path("tokens.key"),
		"--kubelet-client-certificate=" + c.path("to-kubelet.crt"), "--kubelet-client-key=" + c.path("to-kubelet.key"),
		"--kubelet-certificate-authority=" + c.path("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--profiling=false",
	}, c.options.APIServerFlags...)
	apiserver, err := c.run("kube-apiserver", flags...)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.wait(ctx, "wait for kube-apiserver", apiserver, func(ctx context.Context) error {
		return get(ctx, client, c.Config.Host+"/readyz")
	})
}

// startProxy makes ClusterIPs carry traffic.
func (c *Cluster) startProxy(ctx context.Context) error {
	// Written once and not again: kube-proxy ends when its file changes.
	err := c.writeYAML("proxy.yaml", map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": c.path("proxy.kubeconfig")},
		"mode":               "nftables",
		"clusterCIDR":        c.at.pods() + "," + c.at.pods6(),
		"hostnameOverride":   c.node(),
		"healthzBindAddress": fmt.Sprintf("%s:%d", c.at.node(), proxyHealthPort),
		"metricsBindAddress": "127.0.0.1:10249",
		"oomScoreAdj":        0,
		// Limits of connection tracking belong to the machine.
		"conntrack": map[string]any{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	})
	if err != nil {
		return err
	}
	proxy, err := c.run("kube-proxy", c.built["kube-proxy"], "--config="+c.path("proxy.yaml"))
	if err != nil {
		return err
	}
	health := fmt.Sprintf("http://%s:%d/healthz", c.at.node(), proxyHealthPort)
	return c.wait(ctx, "wait for kube-proxy", proxy, func(ctx context.Context) error { return get(ctx, http.DefaultClient, health) })
}

// makeNode creates the node that kube-proxy waits for, where no kubelet does.
func (c *Cluster) makeNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: c.node()},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: c.at.node()}, {Type: corev1.NodeInternalIP, Address: c.at.node6()},
		}},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// awaitAccounts returns once pods can be made: without its namespace's service account, none is accepted.
func (c *Cluster) awaitAccounts(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	return c.wait(ctx, "wait for the default service account", c.program("kube-controller-manager"), func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// get requests a page and wants the status 200. It does not wait long for an answer: the caller
// repeats it.
func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}
