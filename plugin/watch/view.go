package watch

import "github.com/clusterset-dns/multicluster/plugin/index"

// View is what can be answered now. It does not change.
type View struct {
	// Index has all ServiceImports, and the EndpointSlices as far as they have synced.
	Index *index.Index

	whole bool
	// headless are the headless services, whose names are not known before the EndpointSlices have synced.
	headless map[index.Key]struct{}
}

// NewView returns a View of an Index that knows all.
func NewView(x *index.Index) *View { return &View{Index: x, whole: true} }

// NewPartialView returns a View of an Index that does not know the endpoints of some services.
func NewPartialView(x *index.Index, headless ...index.Key) *View {
	v := &View{Index: x, headless: map[index.Key]struct{}{}}
	for _, key := range headless {
		v.headless[key] = struct{}{}
	}
	return v
}

// Whole says whether every resource has synced.
func (v *View) Whole() bool { return v.whole }

// Unknown says whether a name may have records that are not known yet: names of headless services, and the names above them, which
// exist where a service below them has an endpoint. It is about names that the Index does not have.
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
