package simulation

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/plugin/watch"
	"github.com/clusterset-dns/multicluster/test/apiserver"
	"github.com/clusterset-dns/multicluster/test/world"
)

// cluster is one member.
type cluster struct {
	id       string
	number   int
	network  *network
	judges   *judges
	server   *apiserver.Recorder
	flags    reconcile.Options // those that the story gives
	imported labels.Selector   // the namespaces to which it imports, nil for all
	admin    client.Client

	controller *program // nil if none runs
	standby    *program // a second replica, which leads when the controller has ended; nil if there is none
	second     *program // of another installation, by mistake
	dying      sync.WaitGroup
	dns        *watch.Watch
	stopOthers func()
	saved      *apiserver.Backup
	changed    chan struct{} // has an element after a change that the garbage collector can be interested in

	ahead    atomic.Int64 // of the API server's clock, in nanoseconds
	mu       sync.Mutex
	refusals []*refusal
	mutation *mutation // nil if there is none
}

// program is a running program.
type program struct {
	in      string // its namespace
	wire    *wire
	stop    context.CancelFunc
	began   time.Time
	life    context.Context //nolint:containedctx // it ends when the program has ended
	cache   cache.Cache
	mu      sync.Mutex    // between the first filling and an early stop
	filling chan struct{} // is closed when the caches begin to be filled
	started chan struct{} // and when all parts of the program run
	ended   chan struct{} // is closed when it has ended, with err
	err     error
}

// servicesOf are the networks of a cluster's Services. Its pods have addresses of 10.9.<number>.0/24.
func servicesOf(number int, dual bool) []netip.Prefix {
	v4 := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(number), 0, 0}), 24)
	if !dual {
		return []netip.Prefix{v4}
	}
	return []netip.Prefix{v4, netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/112", number))}
}

// clusterOfPod returns the ID of the cluster that an address of a pod belongs to: 10.9.<number>.0/24 and fd00::<number>.
func clusterOfPod(a netip.Addr) string {
	number := int(a.As16()[15])
	if a.Is4() {
		number = int(a.As4()[2])
	}
	return "member" + strconv.Itoa(number)
}

// newCluster starts a cluster without a controller. IDs are member1, member2 and so on.
func newCluster(ctx context.Context, n *network, j *judges, number int, seed uint64, dual bool) (*cluster, error) {
	c := &cluster{id: "member" + strconv.Itoa(number), number: number, network: n, judges: j, changed: make(chan struct{}, 1)}
	c.stopOthers = func() {}
	j.follow(c)
	c.server = apiserver.NewRecorder(apiserver.Options{
		ServiceCIDRs: servicesOf(number, dual), Seed: seed + uint64(number), Admit: c.admit,
		Now: c.now,
		Stored: func(r *apiserver.Request) {
			j.stored(c.id, r)
			if r.New == nil || r.New.GetDeletionTimestamp() != nil || len(r.New.GetOwnerReferences()) > 0 || selects(r.New) {
				select {
				case c.changed <- struct{}{}:
				default:
				}
			}
		},
		Refused: func(r *apiserver.Request, err error) { j.refused(c.id, r, err) },
	})
	n.edit(func(n *network) {
		for _, name := range []string{host(c.id), home(c.id)} {
			n.servers[name], n.of[name] = c.server, c.id
		}
	})
	var err error
	if c.admin, err = client.New(c.config("kubectl/v1", apiserver.RoundTripper{Handler: c.server}), client.Options{Scheme: world.Scheme}); err != nil {
		return nil, err
	}
	for _, name := range []string{world.SystemNamespace, namespace} {
		if err := c.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// now is what the clocks of the cluster's nodes say.
func (c *cluster) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

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

// leave ends the reading of a peer.
func (c *cluster) leave(ctx context.Context, peer string) error {
	return c.admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: peer}})
}

// start runs the production controller, as its main does. Beside one that runs, it is the second replica.
func (c *cluster) start(ctx context.Context) {
	if c.controller == nil {
		c.judges.began(c.id)
	}
	p := c.launch(ctx, world.SystemNamespace)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.controller == nil {
		c.controller = p
	} else {
		c.standby = p
	}
}

func (c *cluster) launch(ctx context.Context, in string) *program {
	life, over := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	p := &program{in: in, wire: c.network.wire(c.id, nil), stop: cancel, began: time.Now(), life: life, filling: make(chan struct{}), started: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		p.err = p.run(ctx, c)
		p.wire.mute()
		over()
		close(p.ended)
	}()
	return p
}

func (p *program) run(ctx context.Context, c *cluster) error {
	config := c.config(mcs.ControllerName+"/simulated", p.wire)
	options := c.flags
	options.ClusterID, options.Namespace, options.MetricsAddress, options.Poll, options.Version = c.id, p.in, "0", 10*time.Minute, "simulated"
	options.Now, options.ProbePeers, options.Connect = c.now, true, c.network.connect(c.id)
	options.Transport = func(_ string, heard func()) http.RoundTripper { return c.network.wire(c.id, heard) }
	var err error
	if options.CRD, err = reconcile.WaitForCRD(ctx, config, true, time.Second, logr.Discard()); err != nil {
		return err
	}
	manager, err := reconcile.NewManager(ctx, config, options)
	if err != nil {
		return err
	}
	if err := manager.Add(runnable(p.started)); err != nil {
		return err
	}
	p.mu.Lock()
	if p.cache = manager.GetCache(); ctx.Err() == nil {
		close(p.filling)
	}
	p.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return manager.Start(ctx)
}

// runnable is a part of a manager that does nothing but tell that it runs.
type runnable chan struct{}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r runnable) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (r runnable) Start(context.Context) error { close(r); return nil }

// end ends the controller as SIGTERM does, or as the loss of its node does: then nothing that it still wants to write arrives.
//
// controller-runtime does not end, or leaves goroutines behind, before all caches are filled (kubernetes-sigs/controller-runtime#3440). A test in
// virtual time needs them to end: so a program is over for the others at once, and ends a little later.
func (c *cluster) end(crash bool) error {
	p := c.controller
	if p == nil {
		return nil
	}
	c.mu.Lock()
	c.controller, c.standby = c.standby, nil
	c.mu.Unlock()
	if c.controller != nil { // it will lead, and knows nothing of what the former one wrote
		c.judges.began(c.id)
	}
	return c.over(p, crash)
}

// over ends a program, which may have ended by itself.
func (c *cluster) over(p *program, crash bool) error {
	if !crash && p.isFilled() {
		p.stop()
		if <-p.ended; p.err != nil {
			return fmt.Errorf("the controller of %s ended with: %w", c.id, p.err)
		}
		return nil
	}
	p.wire.mute()
	if p.stopEarly() {
		<-p.ended
		return nil
	}
	c.dying.Go(func() {
		select {
		case <-p.started:
			p.cache.WaitForCacheSync(p.life)
			_ = wait(p.life, time.Second) // the handlers of events follow the caches
		case <-p.ended: // by itself: it waits two minutes for its caches
		}
		p.stop()
		<-p.ended
	})
	return nil
}

// revive starts a controller that has ended by itself again, as the kubelet does.
func (c *cluster) revive(ctx context.Context) {
	for wait(ctx, 10*time.Second) == nil {
		c.mu.Lock()
		p := c.controller
		c.mu.Unlock()
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
			_ = c.end(true)
			c.start(ctx)
		default:
		}
	}
}

// stopEarly stops a program that has not begun to fill its caches.
func (p *program) stopEarly() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.filling:
		return false
	default:
		p.stop()
		return true
	}
}

// isFilled reports whether a program has run for so long that all its caches are filled.
func (p *program) isFilled() bool {
	select {
	case <-p.started:
	default:
		return false
	}
	soon, cancel := context.WithTimeout(p.life, time.Millisecond)
	defer cancel()
	return time.Since(p.began) > time.Minute && p.cache.WaitForCacheSync(soon)
}

// startOthers runs the plugin's watch, and what Kubernetes' own controllers do.
func (c *cluster) startOthers(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	w, err := watch.New(c.config("coredns/simulated", c.network.wire(c.id, nil)), watch.Options{}, silent{})
	if err != nil {
		cancel()
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	running.Go(func() { c.collect(ctx) })
	running.Go(func() { c.revive(ctx) })
	c.dns, c.stopOthers = w, func() { cancel(); running.Wait() }
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
