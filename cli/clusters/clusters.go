// Package clusters turns the contexts of a kubeconfig into clients.
package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/output"
)

// ErrUnknownContext means that the kubeconfig has no context of that name.
var ErrUnknownContext = errors.New("unknown context")

// RequestTimeout bounds one request to an API server, unless the user sets --request-timeout.
const RequestTimeout = 10 * time.Second

// Cluster is the way to the API server of one cluster.
type Cluster struct {
	// Context is the name of the context of the kubeconfig. The commands print it.
	Context string
	// Config is for the user of the context. Requests have a time limit.
	Config    *rest.Config
	Kube      kubernetes.Interface
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface
}

// Contexts are the contexts of the user's kubeconfig, after the flags of kubectl.
type Contexts struct {
	flags *genericclioptions.ConfigFlags
	raw   api.Config
	// ctx ends the requests of clients that have no context of their own, such as discovery.
	ctx context.Context
}

// Load reads the kubeconfig: --kubeconfig, else $KUBECONFIG, else ~/.kube/config.
func Load(ctx context.Context, flags *genericclioptions.ConfigFlags) (*Contexts, error) {
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(raw.Contexts) == 0 {
		return nil, errors.New("read the kubeconfig: it has no contexts, or there is no file: set --kubeconfig or KUBECONFIG")
	}
	return &Contexts{flags: flags, raw: raw, ctx: ctx}, nil
}

// Names returns all contexts, sorted.
func (c *Contexts) Names() []string { return slices.Sorted(maps.Keys(c.raw.Contexts)) }

// Current returns the context that --context or the kubeconfig selects, or "".
func (c *Contexts) Current() string {
	if given := c.flags.Context; given != nil && *given != "" {
		return *given
	}
	return c.raw.CurrentContext
}

// Server returns the entry of a context's cluster in the kubeconfig, with the data of the files that
// it names.
func (c *Contexts) Server(name string) (*api.Cluster, error) {
	context := c.raw.Contexts[name]
	if context == nil {
		return nil, c.unknown(name)
	}
	found := c.raw.Clusters[context.Cluster]
	if found == nil {
		return nil, fmt.Errorf("context %s names the cluster %q, which the kubeconfig does not have", output.Clean(name), context.Cluster)
	}
	one := api.NewConfig()
	one.Clusters[context.Cluster] = found.DeepCopy()
	if err := api.FlattenConfig(one); err != nil {
		return nil, fmt.Errorf("read the certificate authority of context %s: %w", output.Clean(name), err)
	}
	return one.Clusters[context.Cluster], nil
}

func (c *Contexts) unknown(name string) error {
	return fmt.Errorf("%w %q: the kubeconfig has %s", ErrUnknownContext, name, output.List(c.Names(), 10))
}

// Cluster returns the clients of a context. It sends no request.
func (c *Contexts) Cluster(name string) (*Cluster, error) {
	if c.raw.Contexts[name] == nil {
		return nil, c.unknown(name)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: name}
	config, err := clientcmd.NewNonInteractiveClientConfig(c.raw, name, overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("use context %s: %w", output.Clean(name), err)
	}
	config.Timeout = RequestTimeout
	if given := c.flags.Timeout; given != nil && *given != "" && *given != "0" {
		if config.Timeout, err = clientcmd.ParseTimeout(*given); err != nil {
			return nil, fmt.Errorf("--request-timeout: %w", err)
		}
	}
	c.impersonate(config)
	// The flow control of the API server protects its other clients.
	config.QPS, config.Burst = 200, 400
	// client-go writes warnings of API servers to the terminal. They are of no use here, and a
	// hostile server chooses their text.
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return interruptible{next, c.ctx} })
	return New(name, config)
}

// impersonate applies --as, --as-group and --as-uid.
func (c *Contexts) impersonate(config *rest.Config) {
	if as := c.flags.Impersonate; as != nil && *as != "" {
		config.Impersonate.UserName = *as
	}
	if groups := c.flags.ImpersonateGroup; groups != nil && len(*groups) > 0 {
		config.Impersonate.Groups = *groups
	}
	if uid := c.flags.ImpersonateUID; uid != nil && *uid != "" {
		config.Impersonate.UID = *uid
	}
}

// New returns the clients of a client configuration.
func New(name string, config *rest.Config) (*Cluster, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use context %s: %w", output.Clean(name), err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use context %s: %w", output.Clean(name), err)
	}
	return &Cluster{Context: name, Config: config, Kube: kube, Dynamic: objects, Discovery: kube.Discovery()}, nil
}

// Select returns the clusters of the named contexts, in that order, each once. Without names, it
// returns those of all contexts.
func (c *Contexts) Select(names []string) ([]*Cluster, error) {
	if len(names) == 0 {
		names = c.Names()
	}
	var all []*Cluster
	var failed []error
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		one, err := c.Cluster(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		all = append(all, one)
	}
	return all, errors.Join(failed...)
}

// interruptible ends requests when the command ends, also those of clients that take no context.
type interruptible struct {
	next http.RoundTripper
	ctx  context.Context //nolint:containedctx // requests of discovery have no context of the caller
}

func (i interruptible) RoundTrip(request *http.Request) (*http.Response, error) {
	if isCleanup(request.Context()) {
		return i.next.RoundTrip(request)
	}
	if err := i.ctx.Err(); err != nil {
		return nil, err
	}
	if request.Context().Done() != nil {
		return i.next.RoundTrip(request)
	}
	return i.next.RoundTrip(request.WithContext(i.ctx))
}
