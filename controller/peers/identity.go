package peers

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// identity is the ID that a cluster announces in annotations on Namespaces.
type identity struct {
	uid   types.UID               // of the namespace kube-system; unique for each cluster
	by    map[string]string       // namespace: the ID that is announced there
	beats map[string]string       // namespace: the heartbeat that is announced there
	seen  map[string]announcement // namespace: the last announcement, without its heartbeat. Only that of the speaker is parsed
	home  string                  // the controller's own namespace; "" for a peer
	lasts bool                    // home exists and is not being deleted

	version string // resourceVersion of home
}

// maxUID is the length of a UID in the API.
const maxUID = 36

// shownUID returns the UID for the Lease, or "" for one that is longer than those of an API server: the
// peer decides about it.
func (i *identity) shownUID() string {
	if len(i.uid) > maxUID {
		return ""
	}
	return string(i.uid)
}

// announcement is what one Namespace announces.
type announcement struct {
	uid        types.UID // of kube-system only
	id         string    // the announced ID
	properties string    // the announced properties
	exports    string    // the announced namespaces to export from
	limited    bool      // exports is announced; otherwise the cluster exports from all
	beat       string    // the heartbeat
	build      string    // the version of the controller
	terms      string    // the version that describes its exported Services
	created    int64     // when the Namespace was created, in seconds

	// Of the controller's own namespace only:
	lasts   bool
	version string
}

func (i *identity) put(id types.NamespacedName, value announcement, changed []types.NamespacedName) []types.NamespacedName {
	if id.Name == systemNamespace {
		i.uid = value.uid
	}
	if id.Name == i.home {
		i.lasts, i.version = value.lasts, value.version
	}
	if value.id == "" {
		delete(i.by, id.Name)
	} else {
		i.by[id.Name] = value.id
	}
	delete(i.beats, id.Name)
	if value.beat != "" {
		i.beats[id.Name] = value.beat
	}
	// A heartbeat alone is read at the next evaluation: it is no change for all peers.
	value.beat = ""
	if old, found := i.seen[id.Name]; found && old == value {
		return changed
	}
	i.seen[id.Name] = value
	return append(changed, id)
}

// speaker returns the namespace that speaks for an ID, or "": the oldest one that announces it. So a Namespace that a tenant
// creates cannot change what a cluster announces.
func (i *identity) speaker(id string) (speaker string) {
	for namespace, announced := range i.by {
		if announced == id && (speaker == "" || i.isOlder(namespace, speaker)) {
			speaker = namespace
		}
	}
	return speaker
}

// isOlder reports whether a namespace is older than another one, by its name if both are from one second.
func (i *identity) isOlder(a, b string) bool {
	return cmp.Or(cmp.Compare(i.seen[a].created, i.seen[b].created), cmp.Compare(a, b)) < 0
}

func (i *identity) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
	delete(i.seen, id.Name)
	delete(i.beats, id.Name)
	own := id.Name == i.home && i.lasts
	if _, announced := i.by[id.Name]; !announced && !own {
		return changed
	}
	delete(i.by, id.Name)
	i.lasts = i.lasts && !own
	return append(changed, id)
}

func (i *identity) ids() iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for namespace := range i.by {
			if !yield(types.NamespacedName{Name: namespace}) {
				return
			}
		}
		if i.lasts {
			yield(types.NamespacedName{Name: i.home})
		}
	}
}

const systemNamespace = "kube-system"

func trimNamespace(object any) (announcement, bool) {
	namespace := object.(*corev1.Namespace)
	of := announcement{id: namespace.Annotations[mcs.AnnotationClusterID]}
	if of.id != "" {
		of.created = namespace.CreationTimestamp.Unix()
		if text := namespace.Annotations[mcs.AnnotationProperties]; len(text) <= maxProperties {
			of.properties = strings.Clone(text)
		}
		of.exports, of.limited = exportsOf(namespace)
		if beat := namespace.Annotations[mcs.AnnotationHeartbeat]; len(beat) <= maxBeat {
			of.beat = strings.Clone(beat)
		}
		if build := namespace.Annotations[mcs.AnnotationVersion]; aVersion.MatchString(build) {
			of.build = strings.Clone(build)
		}
		if terms := namespace.Annotations[mcs.AnnotationTerms]; aVersion.MatchString(terms) {
			of.terms = strings.Clone(terms)
		}
	}
	// A longer text is not an ID (C34). Messages show it, and an annotation can have 256 KiB.
	if len(of.id) > validation.LabelValueMaxLength {
		of.id = of.id[:validation.LabelValueMaxLength] + "..."
	}
	if namespace.Name == systemNamespace {
		of.uid = namespace.UID
	}
	return of, of != announcement{}
}

// trimHome also records whether the controller's own namespace exists and is not being deleted.
func trimHome(own string) func(any) (announcement, bool) {
	return func(object any) (announcement, bool) {
		of, ok := trimNamespace(object)
		if namespace := object.(*corev1.Namespace); namespace.Name == own {
			of.lasts, of.version, ok = namespace.DeletionTimestamp == nil, namespace.ResourceVersion, true
			of.created = namespace.CreationTimestamp.Unix()
			of.exports, of.limited = exportsOf(namespace) // It is announced before the ID.
		}
		return of, ok
	}
}

// newIdentity returns the identity of a cluster of which nothing is known.
func newIdentity(home string) identity {
	return identity{by: map[string]string{}, home: home, beats: map[string]string{}, seen: map[string]announcement{}}
}

func (i *identity) announced() []string { return slices.Compact(slices.Sorted(maps.Values(i.by))) }

// announces reports whether an ID is announced. It is called often, and there can be thousands.
func (i *identity) announces(id string) bool {
	for _, announced := range i.by {
		if announced == id {
			return true
		}
	}
	return false
}
