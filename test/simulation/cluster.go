package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/plugin/watch"
	"github.com/clusterset-dns/multicluster/test/apiserver"
	"github.com/clusterset-dns/multicluster/test/world"
)

// cluster is one member.
type cluster struct {
	id      string
	number  int
	network *network
	server  *apiserver.Server
	admin   client.Client

	controller *program // nil if none runs
	dns        *watch.Watch
	stopDNS    func()
}

// program is a running program.
type program struct {
	wire  *wire
	stop  context.CancelFunc
	ended chan error
}

// servicesOf is the network of a cluster's Services. Its pods have addresses of 10.9.<number>.0/24.
func servicesOf(number int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(number), 0, 0}), 24)
}

// clusterOfPod returns the ID of the cluster that an address of a pod belongs to.
func clusterOfPod(a netip.Addr) string { return "member" + strconv.Itoa(int(a.As4()[2])) }

// newCluster starts a cluster without a controller. IDs are member1, member2 and so on.
func newCluster(ctx context.Context, n *network, number int, seed uint64) (*cluster, error) {
	c := &cluster{id: "member" + strconv.Itoa(number), number: number, network: n}
	c.server = apiserver.New(apiserver.Options{ServiceCIDRs: []netip.Prefix{servicesOf(number)}, Seed: seed + uint64(number)})
	n.edit(func(n *network) {
		for _, name := range []string{host(c.id), home(c.id)} {
			n.servers[name], n.of[name] = c.server, c.id
		}
	})
	var err error
	if c.admin, err = client.New(c.config("kubectl/v1", apiserver.RoundTripper{Handler: c.server}), client.Options{Scheme: world.Scheme}); err != nil {
		return nil, err
	}
	for _, name := range []string{world.SystemNamespace, "shop"} {
		if err := c.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// home is the host of the API server as the cluster's own pods know it.
func home(cluster string) string { return "kubernetes." + cluster }

func (c *cluster) config(agent string, over http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "https://" + home(c.id), Transport: over, QPS: -1, UserAgent: agent}
}

// join lets the cluster read a peer.
func (c *cluster) join(ctx context.Context, peer string) error {
	config := api.NewConfig()
	config.Clusters[peer] = &api.Cluster{Server: "https://" + host(peer)}
	config.AuthInfos[peer] = &api.AuthInfo{Token: "reader-" + c.id}
	config.Contexts[peer] = &api.Context{Cluster: peer, AuthInfo: peer}
	config.CurrentContext = peer
	text, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return c.admin.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: peer, Labels: map[string]string{mcs.LabelPeer: "true"}},
		Data:       map[string][]byte{"kubeconfig": text},
	})
}

// start runs the production controller.
func (c *cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &program{wire: c.network.wire(c.id, nil), stop: cancel, ended: make(chan error, 1)}
	config := c.config(mcs.ControllerName+"/simulated", p.wire)
	options := reconcile.Options{
		ClusterID: c.id, Namespace: world.SystemNamespace, MetricsAddress: "0", Poll: time.Minute, Version: "simulated",
		PeerTimeout: 10 * time.Minute, KeepLastEndpoints: true, ProbePeers: true, Connect: c.network.connect(c.id),
		Transport: func(_ string, heard func()) http.RoundTripper { return c.network.wire(c.id, heard) },
	}
	var err error
	if options.CRD, err = reconcile.WaitForCRD(ctx, config, true, time.Second, logr.Discard()); err != nil {
		return errors.Join(err, ctx.Err())
	}
	manager, err := reconcile.NewManager(ctx, config, options)
	if err != nil {
		cancel()
		return fmt.Errorf("the controller of %s does not start: %w", c.id, err)
	}
	go func() { p.ended <- manager.Start(ctx) }()
	c.controller = p
	return nil
}

// end ends the controller as SIGTERM does, or as the loss of its node does: then nothing that it still wants to write arrives.
func (c *cluster) end(crash bool) error {
	p := c.controller
	if p == nil {
		return nil
	}
	c.controller = nil
	if crash {
		p.wire.crash()
	}
	p.stop()
	err := <-p.ended
	if crash || err == nil {
		return nil
	}
	return fmt.Errorf("the controller of %s ended with: %w", c.id, err)
}

// startDNS runs the plugin's watch.
func (c *cluster) startDNS(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	w, err := watch.New(c.config("coredns/simulated", c.network.wire(c.id, nil)), watch.Options{}, silent{})
	if err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	c.dns, c.stopDNS = w, func() { cancel(); <-ended }
	return nil
}

// silent is an Observer of the plugin's watch.
type silent struct{}

func (silent) Problems(string, string, []watch.Problem, bool) {}
func (silent) Failed(string, error)                           {}
func (silent) Recovered(string)                               {}
func (silent) Absent(string)                                  {}
func (silent) Published(int, int, bool)                       {}
func (silent) Programmed(string, time.Duration)               {}
