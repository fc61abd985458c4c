package clusters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// parent has a folder for each cluster. It is the same for all users, as names and indexes are: and paths of sockets are short.
const (
	grandparent = "/var/lib"
	parent      = grandparent + "/multicluster-clusters"
)

// Cluster is one that runs.
type Cluster struct {
	Name       string
	Config     *rest.Config // of an administrator, without client-side rate limit
	Kubeconfig string       // the path of the same as a file
	DNS        string       // where pods look for DNS: no Service has the address yet
	Node, Pods string       // the IPv4 addresses
	Dir        string       // holds everything; goes with Stop

	at        addresses
	built     map[string]string // paths of programs
	images    images.Archives
	unbounded context.Context // for Stop, which takes none
	began     time.Time

	mu       sync.Mutex // of what steps do that run at the same time: the programs, and lines of progress
	programs []*kube.Program
}

// startLimit is for a machine that does other work too. Programs and images are built before it begins.
const startLimit = 5 * time.Minute

// Start gives a new cluster, once pods can be made in it. A cluster of the same name is removed first. The context bounds the
// start, not the cluster's life.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := errors.Join(options.check(), checkNeeds()); err != nil {
		return nil, err
	}
	c := newCluster(ctx, options.Name, addresses(options.Index))
	if err := c.build(ctx); err != nil {
		return nil, err
	}
	c.began = time.Now()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("start the cluster %s: %w", c.Name, errors.Join(err, c.Stop()))
	}
	c.say("the cluster runs: " + c.Kubeconfig)
	return c, nil
}

func newCluster(ctx context.Context, name string, at addresses) *Cluster {
	c := &Cluster{
		Name:      name,
		DNS:       at.dns(),
		Node:      at.node(),
		Pods:      at.pods(),
		Dir:       filepath.Join(parent, name),
		at:        at,
		unbounded: context.WithoutCancel(ctx),
	}
	c.Kubeconfig = c.path(kubeconfigFile)
	return c
}

// build does what is done once for each user: programs from their sources, and images.
func (c *Cluster) build(ctx context.Context) (err error) {
	if c.images, err = images.Make(ctx); err != nil {
		return err
	}
	c.built, err = kube.Build(ctx, os.Stderr,
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
	return err
}

// start does as much at a time as the order of things allows.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.prepare(ctx); err != nil {
		return err
	}
	if err := c.writeIdentities(); err != nil {
		return err
	}
	containerd := make(chan struct{}) // closed when it runs
	return together(ctx, func(ctx context.Context) error {
		if err := c.startContainerd(ctx); err != nil {
			return err
		}
		close(containerd)
		return c.loadImages(ctx)
	}, func(ctx context.Context) error {
		if err := c.startControlPlane(ctx); err != nil {
			return err
		}
		select {
		case <-containerd:
			return together(ctx, c.startNode, c.startProxy, c.awaitAccounts)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func together(ctx context.Context, steps ...func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, step := range steps {
		all.Go(func() error { return step(ctx) })
	}
	return all.Wait()
}

// prepare makes the cluster's folder and network, after what was left of an earlier one is gone.
func (c *Cluster) prepare(ctx context.Context) error {
	unlock, err := kube.LockFolder(ctx, grandparent)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.remove(ctx); err != nil {
		return err
	}
	if err := c.claimIndex(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("log"), 0o700); err != nil {
		return err
	}
	if err := c.writeState(); err != nil {
		return err
	}
	if err := makeFolders(); err != nil {
		return err
	}
	if err := makeHub(ctx); err != nil {
		return err
	}
	return c.makeNetwork(ctx)
}

// claimIndex fails where another cluster has the same addresses.
func (c *Cluster) claimIndex() error {
	all, err := List(c.unbounded)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.at == c.at {
			return fmt.Errorf("index %d: the cluster %s has it: remove that first (go run ./test/clusters/run down %[2]s)", c.at, other.Name)
		}
	}
	return nil
}

// Stop ends every program of the cluster, and removes its network and its folder.
func (c *Cluster) Stop() error {
	unlock, err := kube.LockFolder(c.unbounded, grandparent)
	if err != nil {
		return err
	}
	defer unlock()
	return c.remove(c.unbounded)
}

// Remove is Stop for a cluster that another process started. It is no error if there is none.
func Remove(ctx context.Context, name string) error {
	if err := errors.Join(checkName(name), checkNeeds()); err != nil {
		return err
	}
	return newCluster(ctx, name, 0).Stop()
}

// remove works without any of the cluster's programs, and repeats what an earlier one left undone. Each step needs the one before:
// which cgroups are the cluster's is known from its folder, whether it is the last from the folders of others.
func (c *Cluster) remove(ctx context.Context) error {
	if err := c.cut(ctx); err != nil {
		return err
	}
	if err := c.killAll(); err != nil {
		return err
	}
	if err := c.removeCgroups(); err != nil {
		return err
	}
	if err := c.removeNetwork(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return err
	}
	others, err := List(ctx)
	if err != nil || len(others) > 0 {
		return err
	}
	return removeShared(ctx)
}

func (c *Cluster) say(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(os.Stderr, "%s: %s (%.1f s)\n", c.Name, what, time.Since(c.began).Seconds())
}

// program is one that was started by this process.
func (c *Cluster) program(name string) *kube.Program {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.programs, func(p *kube.Program) bool { return p.Name == name })
	return c.programs[i]
}

// stateFile is what another process has to know of a cluster: its index.
const stateFile = "index"

func (c *Cluster) writeState() error {
	return os.WriteFile(c.path(stateFile), []byte(strconv.Itoa(int(c.at))), 0o600)
}

var errRoot = errors.New("clusters need root: network namespaces and containers are made")

// checkNeeds returns what is missing on the machine, before a program fails with a message of its
// own.
func checkNeeds() error {
	if os.Geteuid() != 0 {
		return errRoot
	}
	return kube.Needs("clusters")
}
