package peers

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// maxNamespaces limits the announced namespaces of one cluster, in bytes.
const maxNamespaces = 128 << 10

// exportsOf returns the namespaces that a Namespace announces, and whether it announces any. A list
// that is too long announces that nothing is exported: a limit that cannot be read is not a
// permission.
func exportsOf(namespace *corev1.Namespace) (exports string, limited bool) {
	exports, limited = namespace.Annotations[mcs.AnnotationExportNamespaces]
	if len(exports) > maxNamespaces {
		exports = ""
	}
	return strings.Clone(exports), limited
}

// from returns the namespaces to export from, or nil for all.
func (a announcement) from() map[string]bool {
	if !a.limited {
		return nil
	}
	return readNamespaces(a.exports)
}

// readNamespaces returns announced namespaces.
func readNamespaces(text string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			all[strings.Clone(name)] = true
		}
	}
	return all
}

// learnLocked reads what a peer announces beside its ID, while the peer is connected. It reports
// whether this has changed. What was read stays when the connection ends.
func (p *peer) learnLocked() (changed bool) {
	found := &p.connection.identity
	announced := found.seen[found.speaker(p.id)]
	if announced == p.announced {
		return false
	}
	p.announced = announced
	properties, exports := readProperties(announced.properties), announced.from()
	changed = !maps.Equal(p.properties, properties) || (p.exports == nil) != (exports == nil) || !maps.Equal(p.exports, exports)
	p.properties, p.exports = properties, exports
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
		return readProperties(r.identity.seen[r.options.Namespace].properties)
	}
	return r.properties
}

// SetExportNamespaces sets the namespaces that this cluster exports from, if Options.ExportsAll is
// not set. They are announced to the peers.
func (r *Registry) SetExportNamespaces(names []string) {
	r.mu.Lock()
	text := strings.Join(names, ",")
	same := r.exporting != nil && *r.exporting == text
	r.exporting = &text
	r.mu.Unlock()
	if !same {
		r.identityChanged(nil)
	}
}

// Announced reports whether this cluster has announced that it exports from a namespace.
func (r *Registry) Announced(namespace string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.identity.seen[r.options.Namespace].from()[namespace]
}

// propertiesEvery is the shortest time between two writes of the announced properties. If somebody
// else keeps changing them, there is no fight.
const propertiesEvery = time.Minute

// announceNext writes the next annotation that differs: first the namespaces to export from, then
// the ID, so that no peer imports from other namespaces in between, then the properties, and then the
// heartbeat.
func (r *Registry) announceNext(ctx context.Context, version string) error {
	own := r.options.Namespace
	r.mu.RLock()
	id, exporting, properties := r.identity.by[own], r.exporting, r.properties
	seen := r.identity.seen[own]
	r.mu.RUnlock()
	announced, exports := readProperties(seen.properties), seen.from()
	switch {
	case !r.options.ExportsAll && exporting == nil: // They are not known yet.
		return nil
	case !r.options.ExportsAll && (exports == nil || !maps.Equal(exports, readNamespaces(*exporting))):
		return r.writeAnnotation(ctx, version, mcs.AnnotationExportNamespaces, *exporting)
	case r.options.ExportsAll && exports != nil:
		return r.writeAnnotation(ctx, version, mcs.AnnotationExportNamespaces, nil)
	case id == "":
		return r.writeAnnotation(ctx, version, mcs.AnnotationClusterID, r.options.Home)
	}
	if missing := r.unannounced(); len(missing) > 0 {
		return r.writeAnnotations(ctx, version, missing)
	}
	if properties == nil || maps.Equal(properties, announced) {
		return r.beat(ctx, version)
	}
	now := r.options.Now()
	if pause := propertiesEvery - now.Sub(r.propertiesWritten); pause > 0 {
		time.AfterFunc(pause, func() { r.identityChanged(nil) })
		return r.beat(ctx, version)
	}
	var text any // nil removes the annotation
	if len(properties) > 0 {
		text = labels.FormatLabels(properties)
	}
	if err := r.writeAnnotation(ctx, version, mcs.AnnotationProperties, text); err != nil {
		return err // A conflict, often with an annotation that was written a moment ago, must not cost a minute.
	}
	r.propertiesWritten = now
	return nil
}
