package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// The ClusterProperty that contains a cluster's ID (C50, KEP-2149).
const (
	aboutGroup    = "about.k8s.io"
	aboutResource = "clusterproperties"
	idProperty    = "cluster.clusterset.k8s.io"
)

// ErrIDChanged: the ClusterProperty contains another ID than this process was started with.
var ErrIDChanged = errors.New("the cluster ID has changed, so this process exits to start again")

// Identity finds this cluster's ID and its properties.
type Identity struct {
	flag       string
	properties map[string]string
	finder     discovery.DiscoveryInterface
	client     dynamic.Interface
}

// NewIdentity prepares an Identity from the values of two flags. It makes no request yet. Both may be
// empty: then ClusterProperties are read. An invalid flag is an error.
func NewIdentity(config *rest.Config, flag, properties string) (*Identity, error) {
	given, err := parseProperties(properties)
	if err != nil {
		return nil, fmt.Errorf("--cluster-properties: %w", err)
	}
	if flag != "" {
		if fault := mcs.ClusterIDFault(flag); fault != "" {
			return nil, fmt.Errorf("--cluster-id %q %s", flag, fault)
		}
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	return &Identity{flag, given, finder, client}, err
}

// Find returns the ID of the flag, otherwise that of the ClusterProperty, otherwise "": then this
// cluster is not in a clusterset. An error means that there was no answer, or that the value of the
// property is invalid.
func (i *Identity) Find(ctx context.Context) (string, error) {
	if i.flag != "" {
		return i.flag, nil
	}
	resource, err := i.resource()
	if resource == nil || err != nil {
		return "", err
	}
	property, err := i.client.Resource(*resource).Get(ctx, idProperty, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read ClusterProperty %s: %w", idProperty, err)
	}
	value, _, err := unstructured.NestedString(property.Object, "spec", "value")
	if err != nil {
		return "", fmt.Errorf("ClusterProperty %s: %w", idProperty, err)
	}
	value = strings.TrimSpace(value)
	if fault := mcs.ClusterIDFault(value); fault != "" {
		return "", fmt.Errorf("ClusterProperty %s has the value %q, which %s", idProperty, value, fault)
	}
	return value, nil
}

// resource returns ClusterProperty in the version that the server prefers, or nil if the server
// does not have it.
func (i *Identity) resource() (*schema.GroupVersionResource, error) {
	groups, err := i.finder.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", aboutGroup, err)
	}
	named := 0
	for _, group := range groups.Groups {
		if group.Name == aboutGroup {
			gv := schema.GroupVersion{Group: aboutGroup, Version: group.PreferredVersion.Version}
			return new(gv.WithResource(aboutResource)), nil
		}
		if group.Name != "" {
			named++
		}
	}
	// The client returns an empty list if the list is refused. Without its ID, the cluster would
	// leave the clusterset.
	if named == 0 {
		return nil, fmt.Errorf("look for %s: the server lists no API groups", aboutGroup)
	}
	return nil, nil
}

// Wait repeats Find until it succeeds.
func (i *Identity) Wait(ctx context.Context, every time.Duration, log logr.Logger) (string, error) {
	said := ""
	for {
		id, err := i.Find(ctx)
		if err == nil {
			return id, nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Info("waiting for the cluster ID", "reason", said)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(every):
		}
	}
}

// idWatch stops the manager when the cluster's ID is no longer the one that the manager was built
// for: a changed ID means leave and join (C40).
type idWatch struct {
	identity *Identity
	id       string
	every    time.Duration
}

// NeedLeaderElection returns false: the standby has to restart as well.
func (*idWatch) NeedLeaderElection() bool { return false }

// Start checks the ID at intervals, and returns an error when it has changed.
func (w *idWatch) Start(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if id, err := w.identity.Find(ctx); err == nil && id != w.id {
			return fmt.Errorf("%w: it was %q and is %q", ErrIDChanged, w.id, id)
		}
	}
}
