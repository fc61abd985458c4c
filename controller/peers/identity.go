package peers

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// identity is how a cluster announces its id: by annotations on Namespaces.
type identity struct {
	uid   types.UID         // of its namespace kube-system, which no two clusters share
	by    map[string]string // namespace: the ids that controllers announce
	home  string            // the own controller's namespace; "" for a peer
	lasts bool              // home is there, and is not being deleted

	version string // of home
}

// announcement is what one Namespace announces.
type announcement struct {
	uid types.UID // of kube-system only
	id  string    // that is announced there

	// Of the own controller's namespace only:
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
	return append(changed, id)
}

func (i *identity) drop(id types.NamespacedName, changed []types.NamespacedName) []types.NamespacedName {
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
	if len(of.id) > validation.LabelValueMaxLength { // Not an ID (C34). It is shown, and an annotation may have 256 KiB.
		of.id = of.id[:validation.LabelValueMaxLength] + "..."
	}
	if namespace.Name == systemNamespace {
		of.uid = namespace.UID
	}
	return of, of != announcement{}
}

// trimHome also keeps whether the controller's own namespace lasts.
func trimHome(own string) func(any) (announcement, bool) {
	return func(object any) (announcement, bool) {
		of, ok := trimNamespace(object)
		if namespace := object.(*corev1.Namespace); namespace.Name == own {
			of.lasts, of.version, ok = namespace.DeletionTimestamp == nil, namespace.ResourceVersion, true
		}
		return of, ok
	}
}

func (i *identity) announced() []string { return slices.Compact(slices.Sorted(maps.Values(i.by))) }

func (i *identity) announces(id string) bool { return slices.Contains(i.announced(), id) }
