package watch

import "github.com/clusterset-dns/multicluster/plugin/index"

// View is what can be answered at one time. It is immutable.
type View struct {
	// Index contains the ServiceImports and EndpointSlices as far as they have synced.
	Index *index.Index

	whole bool
	// unlisted contains the namespaces whose ServiceImports have not synced.
	unlisted namespaces
	// headless contains the headless services whose EndpointSlices have not synced.
	headless map[index.Key]struct{}
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
	return v
}

// Whole reports whether every resource has synced.
func (v *View) Whole() bool { return v.whole }

// Unlisted reports whether a name is at or below a namespace whose ServiceImports are not known yet.
func (v *View) Unlisted(name index.Name) bool {
	return !v.whole && name.Namespace != "" && v.unlisted.has(name.Namespace)
}

// Unknown reports whether a name that the Index does not have, in a namespace that is listed, can have records that are not known
// yet: names of headless services, and the names above them, which exist if a service below them
// has an endpoint.
func (v *View) Unknown(name index.Name) bool {
	if v.whole || len(v.headless) == 0 {
		return false
	}
	switch name.Kind {
	case index.KindService:
		_, headless := v.headless[name.Service]
		return headless
	case index.KindNamespace, index.KindSvc:
		return true
	}
	return false
}
