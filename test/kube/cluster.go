package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// Options of a cluster. The zero value is a single-stack cluster.
type Options struct {
	// ServiceCIDRs are the ranges of ClusterIPs, "10.0.0.0/24" unless given; "10.0.0.0/24,fd00:10::/112" is dual-stack.
	ServiceCIDRs string
	// APIServerFlags come after the flags that Start gives, so that they win.
	APIServerFlags []string
	// Programs are paths to use instead of those that Build returns, by the names of the programs:
	// see Find.
	Programs map[string]string
}

func (o Options) withDefaults() Options {
	if o.ServiceCIDRs == "" {
		o.ServiceCIDRs = "10.0.0.0/24"
	}
	return o
}

// Cluster is a running etcd and kube-apiserver. Tests that run in parallel may share it; what starts and stops programs is for one
// of them at a time.
type Cluster struct {
	Config     *rest.Config // of an administrator, without client-side rate limit
	Kubeconfig string       // the path of the same as a file, readable by its owner only

	options Options
	dir     string   // holds everything; goes with Stop
	alive   *os.File // keeps other processes from removing dir
	port    int      // of the API server
	first   beginning

	etcd, apiserver, controllers, proxy *Program
}

// Start returns a new cluster when its API server is ready. The context limits the start, not the
// lifetime of the cluster.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{options: options.withDefaults()}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	programs, err := c.programs(ctx, "etcd", "kube-apiserver")
	if err != nil {
		return err
	}
	if c.dir, c.alive, err = newFolder(os.TempDir()); err != nil {
		return err
	}
	if err := countStart(); err != nil {
		return err
	}
	ca, err := WriteIdentities(c.dir, "kube")
	if err != nil {
		return err
	}
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	if err := c.startEtcd(ctx, programs["etcd"]); err != nil {
		return err
	}
	return retryBind(ctx, func(ctx context.Context) error {
		if c.port, err = FreePort(); err != nil {
			return err
		}
		c.Kubeconfig = c.kubeconfig("admin")
		c.Config, err = WriteKubeconfig(c.Kubeconfig, "kube", fmt.Sprintf("https://127.0.0.1:%d", c.port), ca.PEM(), "admin", ClientOf(admin))
		if err != nil {
			return err
		}
		return c.StartAPIServer(ctx)
	})
}

// Starts is the variable of the environment with the file to which each start of an API server adds a line: test/parts counts them.
const Starts = "API_SERVER_STARTS"

func countStart() error {
	path := os.Getenv(Starts)
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, filepath.Base(os.Args[0]))
	return errors.Join(err, file.Close())
}

// programs are the paths of programs, those of the options first.
func (c *Cluster) programs(ctx context.Context, names ...string) (map[string]string, error) {
	given := maps.Clone(c.options.Programs)
	names = slices.DeleteFunc(names, func(name string) bool { return given[name] != "" })
	if len(names) == 0 {
		return given, nil
	}
	all, err := Build(ctx, os.Stderr, names...)
	if err == nil {
		maps.Copy(all, given)
	}
	return all, err
}

// Stop ends every program of the cluster and removes its folder.
func (c *Cluster) Stop() error {
	for _, p := range []*Program{c.proxy, c.controllers, c.apiserver, c.etcd} {
		p.Stop()
	}
	if c.dir == "" || !exists(c.dir) {
		return nil
	}
	return errors.Join(os.RemoveAll(c.dir), c.alive.Close())
}

func (c *Cluster) startEtcd(ctx context.Context, path string) (err error) {
	if c.etcd, err = run(c.dir, path, EtcdFlags(c.dir)...); err != nil {
		return err
	}
	return c.etcd.answers(ctx, overSocket(filepath.Join(c.dir, "etcd.sock")), "http://localhost/health")
}

// EtcdFlags let etcd listen on Unix sockets in the cluster's own folder: no port to collide, and no way in for other users. The
// addresses that it would tell other members are never used.
func EtcdFlags(dir string) []string {
	const nobody = "http://127.0.0.1:1"
	return []string{
		"--data-dir=" + filepath.Join(dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=" + etcdSocket(dir), "--advertise-client-urls=" + nobody,
		"--listen-peer-urls=unix://" + filepath.Join(dir, "peer.sock"), "--initial-advertise-peer-urls=" + nobody,
		"--initial-cluster=default=" + nobody,
		// Alone, it elects itself: sooner than in the usual second. Shorter heartbeats take a hundredth of a core for each cluster.
		"--heartbeat-interval=100", "--election-timeout=500",
		"--log-level=warn",
	}
}

func etcdSocket(dir string) string { return "unix://" + filepath.Join(dir, "etcd.sock") }

// StartAPIServer starts the API server and waits until it is ready: after StopAPIServer with the same address and data.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	programs, err := c.programs(ctx, "kube-apiserver")
	if err != nil {
		return err
	}
	if c.apiserver, err = run(c.dir, programs["kube-apiserver"], c.apiserverFlags()...); err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return c.apiserver.answers(ctx, client, c.Config.Host+"/readyz")
}

// StopAPIServer ends the API server as an outage does: at once, with every connection. Its data stays.
func (c *Cluster) StopAPIServer() { c.apiserver.Stop() }

// apiserverFlags leave out what only costs time here; every check of requests stays.
func (c *Cluster) apiserverFlags() []string {
	advertised := "127.0.0.1"
	if first, _, _ := strings.Cut(c.options.ServiceCIDRs, ","); strings.Contains(first, ":") {
		advertised = "::1" // has to be of the first range's family
	}
	return slices.Concat(ServerFlags(c.dir, c.port, c.options.ServiceCIDRs), []string{
		"--bind-address=127.0.0.1", "--advertise-address=" + advertised,
		"--authorization-mode=RBAC",
		// The endpoints of the Service «kubernetes» may not be loopback addresses: there would be an error every ten seconds.
		"--endpoint-reconciler-type=none",
		// Tests should wait for what they test, not for their turn.
		"--enable-priority-and-fairness=false",
	}, c.options.APIServerFlags)
}

// ServerFlags are those of any API server that runs beside an etcd with EtcdFlags, in a folder with the files of WriteIdentities.
func ServerFlags(dir string, port int, services string) []string {
	in := func(file string) string { return filepath.Join(dir, file) }
	return []string{
		"--etcd-servers=" + etcdSocket(dir),
		fmt.Sprintf("--secure-port=%d", port), "--service-cluster-ip-range=" + services,
		"--client-ca-file=" + in("ca.crt"), "--tls-cert-file=" + in("server.crt"), "--tls-private-key-file=" + in("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + in("tokens.key"), "--service-account-signing-key-file=" + in("tokens.key"),
		"--allow-privileged=true", "--profiling=false",
	}
}

const controllersSocket = "controllers.sock"

// StartControllers makes owners' dependents and deleted namespaces go, as in a cluster, and fills the Secrets that ask for a service
// account's token: by kube-controller-manager's own code, without its other controllers. Garbage collection learns of new CRDs every five
// seconds only: install them before.
func (c *Cluster) StartControllers(ctx context.Context) error {
	programs, err := c.programs(ctx, "controllers")
	if err != nil {
		return err
	}
	c.controllers, err = run(c.dir, programs["controllers"],
		"--kubeconfig="+c.Kubeconfig, "--service-account-private-key-file=tokens.key", "--socket="+controllersSocket)
	if err != nil {
		return err
	}
	return c.controllers.answers(ctx, overSocket(filepath.Join(c.dir, controllersSocket)), "http://localhost/healthz")
}

// overSocket is a client that connects to a Unix socket, whatever address is asked for.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// Get is what a server says at a URL. Another status than 200 is an error.
func Get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return string(text), err
}
