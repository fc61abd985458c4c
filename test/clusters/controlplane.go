package clusters

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/test/kube"
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
	if err != nil {
		return err
	}
	_, err = c.run("kube-scheduler", c.built["kube-scheduler"],
		"--kubeconfig="+c.path("scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false")
	return err
}

// startEtcd returns once etcd takes connections: it answers them when it has elected itself.
func (c *Cluster) startEtcd(ctx context.Context) error {
	etcd, err := c.run("etcd", append([]string{c.built["etcd"]}, kube.EtcdFlags(c.Dir)...)...)
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
	flags := kube.ServerFlags(c.Dir, apiPort, c.at.services()+","+c.at.services6())
	apiserver, err := c.run("kube-apiserver", slices.Concat([]string{c.built["kube-apiserver"]}, flags, []string{
		"--advertise-address=" + c.at.node(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--kubelet-client-certificate=" + c.path("to-kubelet.crt"), "--kubelet-client-key=" + c.path("to-kubelet.key"),
		"--kubelet-certificate-authority=" + c.path("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
	})...)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.answers(ctx, apiserver, client, c.Config.Host+"/readyz")
}

// answers waits until a page has the status 200. One answer does not take long: the question is repeated.
func (c *Cluster) answers(ctx context.Context, p *kube.Program, client *http.Client, url string) error {
	client.Timeout = 2 * time.Second
	return c.wait(ctx, "wait for "+p.Name, p, func(ctx context.Context) error {
		_, err := kube.Get(ctx, client, url)
		return err
	})
}

// startProxy makes ClusterIPs carry traffic.
func (c *Cluster) startProxy(ctx context.Context) error {
	health := fmt.Sprintf("%s:%d", c.at.node(), proxyHealthPort)
	// Written once and not again: kube-proxy ends when its file changes.
	err := kube.WriteProxyConfig(c.path("proxy.yaml"), map[string]any{
		"clientConnection":   map[string]any{"kubeconfig": c.path("proxy.kubeconfig")},
		"clusterCIDR":        c.at.pods() + "," + c.at.pods6(),
		"hostnameOverride":   c.node(),
		"healthzBindAddress": health,
		"metricsBindAddress": "127.0.0.1:10249",
		"oomScoreAdj":        0,
	})
	if err != nil {
		return err
	}
	proxy, err := c.run("kube-proxy", c.built["kube-proxy"], "--config="+c.path("proxy.yaml"))
	if err != nil {
		return err
	}
	return c.answers(ctx, proxy, &http.Client{}, "http://"+health+"/healthz")
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
