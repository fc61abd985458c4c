package peers

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// maxProperties limits the announced properties of one cluster, in bytes.
const maxProperties = 16 << 10

// readProperties returns announced properties, or nil if they are malformed or too long.
func readProperties(text string) map[string]string {
	if text == "" || len(text) > maxProperties {
		return nil
	}
	properties, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil {
		return nil
	}
	return properties
}

// propertiesOf returns the properties that are announced beside an ID. Of several namespaces that
// announce the ID, the first in alphabetical order that announces properties counts.
func (i *identity) propertiesOf(id string) map[string]string {
	for _, namespace := range slices.Sorted(maps.Keys(i.properties)) {
		if i.by[namespace] == id {
			return i.properties[namespace]
		}
	}
	return nil
}

// learnPropertiesLocked reads a peer's properties while the peer is connected. It reports whether
// they have changed. They stay when the connection ends.
func (p *peer) learnPropertiesLocked() (changed bool) {
	now := p.connection.identity.propertiesOf(p.id)
	changed = !maps.Equal(p.properties, now)
	p.properties = now
	return changed
}

// SetProperties sets the properties of this cluster, which are then announced to the peers. Before
// the first call, the properties that are announced already are in effect.
func (r *Registry) SetProperties(properties map[string]string) {
	r.mu.Lock()
	same := r.properties != nil && maps.Equal(r.properties, properties)
	r.properties = map[string]string{}
	maps.Copy(r.properties, properties)
	r.mu.Unlock()
	if !same {
		r.identityChanged(nil)
		r.callState(r.options.Home)
	}
}

// Properties returns the properties of this cluster. They are read-only.
func (r *Registry) Properties() map[string]string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.properties == nil {
		return r.identity.properties[r.options.Namespace]
	}
	return r.properties
}

// propertiesEvery is the shortest time between two writes of the announced properties. If somebody
// else keeps changing them, there is no fight.
const propertiesEvery = time.Minute

// announceProperties writes the announced properties of this cluster if they differ.
func (r *Registry) announceProperties(ctx context.Context, version string) error {
	r.mu.RLock()
	wanted, announced := r.properties, r.identity.properties[r.options.Namespace]
	r.mu.RUnlock()
	if wanted == nil || maps.Equal(wanted, announced) {
		return nil
	}
	if pause := propertiesEvery - r.options.Now().Sub(r.propertiesWritten); pause > 0 {
		time.AfterFunc(pause, func() { r.identityChanged(nil) })
		return nil
	}
	r.propertiesWritten = r.options.Now()
	var text any // nil removes the annotation
	if len(wanted) > 0 {
		text = labels.FormatLabels(wanted)
	}
	return r.writeAnnotation(ctx, version, mcs.AnnotationProperties, text)
}
