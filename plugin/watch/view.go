package watch

import "github.com/clusterset-dns/multicluster/plugin/index"

// View is what can be answered at one time. It is immutable.
type View struct {
	// Index contains all ServiceImports, and the EndpointSlices as far as they have synced.
	Index *index.Index

	whole bool
	// headless contains the headless services, whose names are unknown until the EndpointSlices
	// have synced.
	headless map[index.Key]struct{}
}

// NewView returns a View of a complete Index.
func NewView(x *index.Index) *View { return &View{Index: x, whole: true} }

// NewPartialView returns a View of an Index that lacks the endpoints of some services.
func NewPartialView(x *index.Index, headless ...index.Key) *View {
	v := &View{Index: x, headless: map[index.Key]struct{}{}}
	for _, key := range headless {
		v.headless[key] = struct{}{}
	}
	return v
}

// Whole reports whether every resource has synced.
func (v *View) Whole() bool { return v.whole }

// Unknown reports whether a name that the Index does not have can have records that are not known
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
