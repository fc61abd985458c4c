package watch

import "github.com/clusterset-dns/multicluster/plugin/index"

// View is what can be answered at one time. It is immutable.
type View struct {
	// Index contains the ServiceImports and EndpointSlices as far as they have synced.
	Index *index.Index

	whole bool
	// Namespaces: all that are watched, and those whose ServiceImports or EndpointSlices have not synced.
	watched, unlisted, partless namespaces
	// headless contains the headless services whose EndpointSlices have not synced.
	headless map[index.Key]struct{}
	above    namespaces // of those services
}

// NewView returns a View of a complete Index.
func NewView(x *index.Index) *View { return &View{Index: x, whole: true} }

// NewPartialView returns a View of an Index that lacks the imports of a namespace ("" for none), and the endpoints of some services.
func NewPartialView(x *index.Index, unlisted string, headless ...index.Key) *View {
	v := &View{Index: x, headless: map[index.Key]struct{}{}, unlisted: namespaces{}}
	if unlisted != "" {
		v.unlisted[unlisted] = struct{}{}
	}
	for _, key := range headless {
		v.headless[key] = struct{}{}
	}
	v.above = above(v.headless)
	return v
}

func above(services map[index.Key]struct{}) namespaces {
	all := namespaces{}
	for key := range services {
		all[key.Namespace()] = struct{}{}
	}
	return all
}

// Whole reports whether every resource has synced.
func (v *View) Whole() bool { return v.whole }

// Covers reports whether each namespace that has synced in another View has synced in this one too, or is not watched any more. Nil
// is a View of nothing.
func (v *View) Covers(other *View) bool {
	if v == nil || other == nil {
		return other == nil
	}
	return covers(v.unlisted, other.unlisted, other.watched) && covers(v.partless, other.partless, other.watched)
}

// covers reports whether what is missing here is also missing there, of what is watched there.
func covers(missing, missingThere, watchedThere namespaces) bool {
	for namespace := range missing {
		known := watchedThere.has(namespace) && !missingThere.has(namespace)
		if namespace == "" {
			known = len(missingThere) < len(watchedThere)
		}
		if known {
			return false
		}
	}
	return true
}

// Unlisted reports whether a name is at or below a namespace whose ServiceImports are not known yet.
func (v *View) Unlisted(name index.Name) bool {
	return name.Namespace != "" && v.unlisted.has(name.Namespace)
}

// Unknown reports whether a name that the Index does not have, in a namespace that is listed, can have
// records that are not known yet: names of headless services, and the namespace above them, which
// exists if a service in it has an endpoint.
func (v *View) Unknown(name index.Name) bool {
	switch name.Kind {
	case index.KindService:
		_, headless := v.headless[name.Service]
		return headless
	case index.KindNamespace:
		return v.above.has(name.Namespace)
	}
	return false
}
