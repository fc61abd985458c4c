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

// The ClusterProperty that holds a cluster's id (C50, KEP-2149).
const (
	aboutGroup    = "about.k8s.io"
	aboutResource = "clusterproperties"
	idProperty    = "cluster.clusterset.k8s.io"
)

// ErrIDChanged: the ClusterProperty has another id than this process was started with.
var ErrIDChanged = errors.New("the cluster's id has changed and this process has to start again")

// Identity finds this cluster's id.
type Identity struct {
	flag   string
	finder discovery.DiscoveryInterface
	client dynamic.Interface
}

// NewIdentity makes no request yet. The error says what is wrong with the id of the flag, which may be empty.
func NewIdentity(config *rest.Config, flag string) (*Identity, error) {
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
	return &Identity{flag, finder, client}, err
}

// Find gives the id of the flag, else that of the ClusterProperty, else none: then this cluster is in no clusterset. Any error means
// that there was no answer, but one that says what is wrong with the property's value.
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

// resource is ClusterProperty in the version that the server prefers; nil where it has none.
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
	if named == 0 { // The client takes a list that is refused for an empty one. Without its ID, the cluster would leave the clusterset.
		return nil, fmt.Errorf("look for %s: the server lists no API groups", aboutGroup)
	}
	return nil, nil
}

// Wait asks until there is an answer.
func (i *Identity) Wait(ctx context.Context, every time.Duration, log logr.Logger) (string, error) {
	said := ""
	for {
		id, err := i.Find(ctx)
		if err == nil {
			return id, nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Info("Waiting for the cluster's id", "reason", said)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(every):
		}
	}
}

// idWatch ends the manager when the cluster's id is no longer what the manager was built for: to change it is to leave and join (C40).
type idWatch struct {
	identity *Identity
	id       string
	every    time.Duration
}

// NeedLeaderElection is false: the standby has to start again as well.
func (*idWatch) NeedLeaderElection() bool { return false }

// Start asks now and then.
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
