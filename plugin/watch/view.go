package watch

import "github.com/clusterset-dns/multicluster/plugin/index"

// View is what can be answered at one time. It is immutable.
type View struct {
	// Index contains the ServiceImports and EndpointSlices as far as they have synced.
	Index *index.Index

	whole bool
	late  bool             // some services are those of an earlier version
	known map[string]known // of each kind
	// headless contains the headless services whose EndpointSlices have not synced.
	headless map[index.Key]struct{}
	above    namespaces // of those services
}

// known is what is known of one kind of object. A namespace is "" for all.
type known struct {
	watched namespaces
	at      map[string]uint64 // the resource version as of which each namespace is known; absent before its first list
}

// namespaces is a set of namespaces.
type namespaces map[string]struct{}

func has[V any](of map[string]V, namespace string) bool {
	_, all := of[""]
	_, this := of[namespace]
	return all || this
}

// lacks reports whether a namespace is watched, and its first list has not arrived.
func (k known) lacks(namespace string) bool {
	return has(k.watched, namespace) && !has(k.at, namespace)
}

// NewView returns a View of an Index that lacks the imports of a namespace ("" for none), and the endpoints of some services.
func NewView(x *index.Index, unlisted string, headless ...index.Key) *View {
	v := &View{Index: x, whole: unlisted == "" && len(headless) == 0, known: map[string]known{}, headless: map[index.Key]struct{}{}}
	if unlisted != "" {
		v.known[importKind.name] = known{watched: namespaces{unlisted: {}}}
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

// Reaches compares with another View: whether each namespace that has synced there has synced here too, or is not
// watched any more, and whether none is of an earlier version here. Nil is a View of nothing.
func (v *View) Reaches(other *View) (covers, isAsNew bool) {
	if v == nil || other == nil {
		return other == nil, other == nil
	}
	covers, isAsNew = true, !v.late
	for kind, k := range v.known {
		for namespace := range k.watched {
			at, listed := k.at[namespace]
			for there, atThere := range other.known[kind].at {
				if namespace == there || namespace == "" || there == "" {
					covers, isAsNew = covers && listed, isAsNew && at >= atThere
				}
			}
		}
	}
	return covers, isAsNew
}

// Unlisted reports whether a name is at or below a namespace whose ServiceImports are not known yet.
func (v *View) Unlisted(name index.Name) bool {
	return name.Namespace != "" && v.known[importKind.name].lacks(name.Namespace)
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
		return has(v.above, name.Namespace)
	}
	return false
}
