package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/controller/preference"
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
func (i *Identity) Wait(ctx context.Context, every time.Duration, log logr.Logger) (id string, err error) {
	err = await(ctx, every, log, "waiting for the cluster ID", func() (failed error) {
		id, failed = i.Find(ctx)
		return failed
	})
	return id, err
}

// await asks at intervals until there is no error. It logs each new error once.
func await(ctx context.Context, every time.Duration, log logr.Logger, what string, ask func() error) error {
	said := ""
	return wait.PollUntilContextCancel(ctx, every, true, func(context.Context) (bool, error) {
		err := ask()
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Info(what, "reason", said)
		}
		return err == nil, nil
	})
}

// poll asks at intervals until the answer is yes or an error. The end of ctx is none.
func poll(ctx context.Context, every time.Duration, atOnce bool, ask func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextCancel(ctx, every, atOnce, ask); ctx.Err() == nil {
		return err
	}
	return nil
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
	return poll(ctx, w.every, false, func(ctx context.Context) (bool, error) {
		id, err := w.identity.Find(ctx)
		if err == nil && id != w.id {
			return true, fmt.Errorf("%w: it was %q and is %q", ErrIDChanged, w.id, id)
		}
		return false, nil
	})
}

// maxProperties limits the properties of one cluster. Every import with a preference records them.
const maxProperties = 32

// identityProperties are not announced as properties: peers know the ID, and all clusters of a
// clusterset have the same membership.
var identityProperties = []string{idProperty, "clusterset.k8s.io"}

// parseProperties returns the properties of a flag, such as "topology.kubernetes.io/region=eu", by the
// names of their ClusterProperties.
func parseProperties(text string) (map[string]string, error) {
	pairs, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil, fmt.Errorf("want KEY=VALUE,... with values that a label can have: %w", err)
	}
	properties := map[string]string{}
	for key, value := range pairs {
		name, ok := preference.PropertyName(key)
		if !ok || !strings.Contains(name, ".") {
			return nil, fmt.Errorf("property %q: want a key with a domain, such as topology.kubernetes.io/region", key)
		}
		if fault := propertyFault(name, value); fault != "" {
			return nil, fmt.Errorf("property %q: %s", key, fault)
		}
		properties[name] = value
	}
	if len(properties) > maxProperties {
		return nil, fmt.Errorf("%d properties, want at most %d", len(properties), maxProperties)
	}
	return properties, nil
}

// propertyFault returns why a property cannot be announced, or "".
func propertyFault(name, value string) string {
	faults := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...)
	if value == "" {
		faults = append(faults, "the value is empty")
	}
	return strings.Join(faults, "; ")
}

// properties are those of a cluster, by the names of their ClusterProperties. notes describe the
// ClusterProperties that are left out.
type properties struct {
	all   map[string]string
	notes []string
}

// readProperties returns the properties of this cluster: those of the flag if it is set, otherwise
// the ClusterProperties. An error means that there was no answer.
func (i *Identity) readProperties(ctx context.Context) (properties, error) {
	p := properties{all: i.properties}
	if len(i.properties) > 0 {
		return p, nil
	}
	resource, err := i.resource()
	if resource == nil || err != nil {
		return p, err
	}
	list, err := i.client.Resource(*resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, fmt.Errorf("list ClusterProperties: %w", err)
	}
	p.all = map[string]string{}
	for _, object := range list.Items {
		name := object.GetName()
		value, _, _ := unstructured.NestedString(object.Object, "spec", "value")
		value = strings.TrimSpace(value)
		switch fault := propertyFault(name, value); {
		case slices.Contains(identityProperties, name):
		case fault != "":
			p.notes = append(p.notes, fmt.Sprintf("ClusterProperty %s: %s", name, fault))
		case len(p.all) >= maxProperties:
			p.notes = append(p.notes, fmt.Sprintf("ClusterProperty %s: only %d are announced", name, maxProperties))
		default:
			p.all[name] = value
		}
	}
	return p, nil
}

// propertyWatch announces the properties of this cluster to its peers.
type propertyWatch struct {
	identity *Identity
	every    time.Duration
	set      func(map[string]string)
	log      logr.Logger
}

// NeedLeaderElection returns true: a replica that does not write announces nothing.
func (*propertyWatch) NeedLeaderElection() bool { return true }

// Start reads the properties at intervals until ctx ends. After an error they stay as they were.
func (w *propertyWatch) Start(ctx context.Context) error {
	said := ""
	return poll(ctx, w.every, true, func(ctx context.Context) (bool, error) {
		found, err := w.identity.readProperties(ctx)
		text := strings.Join(found.notes, "; ")
		if err != nil {
			text = err.Error()
		} else {
			w.set(found.all)
		}
		if text != said && text != "" && ctx.Err() == nil {
			w.log.Info("properties of this cluster are not announced", "reason", text)
		}
		said = text
		return false, nil
	})
}
