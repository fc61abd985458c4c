package simulated

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if r.Method != http.MethodGet { // a reader's account may not write
		fail(w, jsonEncoding, apierrors.NewForbidden(schema.GroupResource{Resource: r.URL.Path}, "", errors.New("peers are only read")))
		return
	}
	if document := s.discovery(r.URL.Path); document != nil {
		answer(w, http.StatusOK, jsonEncoding, document)
		return
	}
	at := slices.IndexFunc(s.stores, func(of *store) bool { return of.path() == r.URL.Path })
	if at < 0 {
		http.NotFound(w, r) // as a kube-apiserver answers for a group or version that it does not have
		return
	}
	of := s.stores[at]
	if r.URL.Query().Get("limit") == "1" { // the question for the version, for which nothing but the metadata is accepted
		_, version := s.snapshot(of, selection{labels.Nothing(), fields.Everything()})
		head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}
		answer(w, http.StatusOK, jsonEncoding, &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, ListMeta: head})
		return
	}
	if accepted := r.Header.Get("Accept"); !strings.Contains(accepted, of.encoding.MediaType) {
		fail(w, jsonEncoding, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, r.Method, schema.GroupResource{Resource: of.resource}, "",
			"accepted is "+accepted+", but controllers accept "+of.encoding.MediaType, 0, true))
		return
	}
	asked, err := read(r.URL.Query())
	switch {
	case err != nil:
		fail(w, of.encoding, apierrors.NewBadRequest(err.Error()))
	case asked.Watch:
		s.watch(w, r, of, asked)
	default:
		s.list(w, of, asked)
	}
}

func groupPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// discovery returns the document at a path, or nil. It is the form of discovery with one request for each version, which clients use
// where they are not answered with the aggregated one. Each group has one version, with one resource.
func (s *Server) discovery(path string) runtime.Object {
	groups := &metav1.APIGroupList{TypeMeta: metaV1("APIGroupList")}
	for _, k := range kinds {
		if path == groupPath(k.GroupVersion()) {
			return &metav1.APIResourceList{TypeMeta: metaV1("APIResourceList"), GroupVersion: k.GroupVersion().String(), APIResources: []metav1.APIResource{{
				Name: k.resource, SingularName: strings.ToLower(k.Kind), Namespaced: k.namespaced, Kind: k.Kind, Verbs: metav1.Verbs{"list", "watch"},
			}}}
		}
		if k.Group != "" {
			version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
			groups.Groups = append(groups.Groups, metav1.APIGroup{Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
	}
	switch path {
	case "/api":
		return &metav1.APIVersions{TypeMeta: metaV1("APIVersions"), Versions: []string{"v1"}}
	case "/apis":
		return groups
	}
	return nil
}

func metaV1(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }

// selection is the part of the objects that a request asks for.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

func (s selection) has(i *item) bool {
	return s.labels.Matches(i.labels) && s.fields.Matches(fields.Set{metav1.ObjectNameField: i.Name})
}

// options are those of a request.
type options struct {
	metav1.ListOptions
	selection
	version uint64 // 0 for none, and for any
}

// read parses the options of a request, and refuses those that no controller uses.
func read(query url.Values) (o options, err error) {
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o.ListOptions, nil); err != nil {
		return o, err
	}
	if o.labels, err = labels.Parse(o.LabelSelector); err != nil {
		return o, err
	}
	if o.fields, err = fields.ParseSelector(o.FieldSelector); err != nil {
		return o, err
	}
	for _, part := range o.fields.Requirements() {
		if part.Field != metav1.ObjectNameField {
			return o, fmt.Errorf("%q is no field to select by", part.Field)
		}
	}
	if o.Continue != "" || o.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return o, errors.New("there are no pages, and no old versions")
	}
	if o.ResourceVersion != "" {
		o.version, err = strconv.ParseUint(o.ResourceVersion, 10, 64)
	}
	return o, err
}

// streams reports whether a watch begins with all objects.
func (o options) streams() bool { return o.SendInitialEvents != nil && *o.SendInitialEvents }

// list answers with all selected objects.
func (s *Server) list(w http.ResponseWriter, of *store, o options) {
	items, version := s.snapshot(of, o.selection)
	objects := make([]runtime.Object, len(items))
	for i, one := range items {
		objects[i] = of.empty("")
		if err := runtime.DecodeInto(of.encoding.Serializer, one.text, objects[i]); err != nil {
			fail(w, of.encoding, err)
			return
		}
	}
	list := of.empty("List")
	list.GetObjectKind().SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
	err := meta.SetList(list, objects)
	if err == nil {
		err = meta.NewAccessor().SetResourceVersion(list, strconv.FormatUint(version, 10))
	}
	if err != nil {
		fail(w, of.encoding, err)
		return
	}
	answer(w, http.StatusOK, of.encoding, list)
}

// answer writes an object that has its apiVersion and kind.
func answer(w http.ResponseWriter, code int, encoding runtime.SerializerInfo, object runtime.Object) {
	text, err := runtime.Encode(encoding.Serializer, object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", encoding.MediaType)
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails if the client has gone
}

// fail answers with an error.
func fail(w http.ResponseWriter, encoding runtime.SerializerInfo, err error) {
	status := statusOf(err)
	answer(w, int(status.Code), encoding, status)
}

func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Status"))
	return &status
}
