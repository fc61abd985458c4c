package simulated

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"strings"
)

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// discovery returns the document at a path, or nil. It is the form of discovery with one request for each version, which clients use
// where they are not answered with the aggregated one.
func (s *Server) discovery(path string) runtime.Object {
	groups, resources := s.groups(), map[string]*metav1.APIResourceList{}
	for _, of := range s.stores {
		at := groupPath(of.kind.GroupVersion)
		if resources[at] == nil {
			resources[at] = &metav1.APIResourceList{TypeMeta: metaV1("APIResourceList"), GroupVersion: of.kind.String()}
		}
		resources[at].APIResources = append(resources[at].APIResources, metav1.APIResource{
			Name: of.kind.resource, SingularName: strings.ToLower(of.kind.name), Namespaced: of.kind.namespaced, Kind: of.kind.name,
			Verbs: metav1.Verbs{"list", "watch"},
		})
	}
	switch path {
	case "/api":
		return &metav1.APIVersions{TypeMeta: metaV1("APIVersions"), Versions: []string{"v1"}}
	case "/apis":
		return &metav1.APIGroupList{TypeMeta: metaV1("APIGroupList"), Groups: groups}
	}
	for i := range groups {
		if path == "/apis/"+groups[i].Name {
			groups[i].TypeMeta = metaV1("APIGroup")
			return &groups[i]
		}
	}
	if list := resources[path]; list != nil {
		return list
	}
	return nil // not a nil pointer in an interface
}

// groups returns the groups, other than that of Namespaces and Services, which has no name. Each has one version.
func (s *Server) groups() (all []metav1.APIGroup) {
	for _, of := range s.stores {
		if of.kind.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: of.kind.String(), Version: of.kind.Version}
		all = append(all, metav1.APIGroup{Name: of.kind.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	return all
}

func metaV1(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }
