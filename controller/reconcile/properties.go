package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/controller/preference"
)

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
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	said := ""
	for {
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
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
