package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// answer writes an object, or a document of no kind in JSON.
func answer(w http.ResponseWriter, code int, media runtime.SerializerInfo, object any) {
	w.Header().Set("Content-Type", media.MediaType)
	w.WriteHeader(code)
	if o, ok := object.(runtime.Object); ok {
		_ = media.Serializer.Encode(o, w) // fails if the client has gone
	} else {
		_ = json.NewEncoder(w).Encode(object)
	}
}

func (s *Server) get(c *call) error {
	c.verb = "get"
	if err := s.admit(c, nil, nil); err != nil {
		return err
	}
	s.mu.Lock()
	one := c.of.items[c.key]
	s.mu.Unlock()
	if one == nil {
		return apierrors.NewNotFound(c.of.groupResource(), c.key.Name)
	}
	answer(c.writer, http.StatusOK, c.media, c.of.typed(one.object, ""))
	return nil
}

// asked are the options of a request for many objects.
type asked struct {
	metav1.ListOptions
	selection
	version uint64 // 0 for none, and for any
}

func (s *Server) read(c *call) error {
	query := c.request.URL.Query()
	var o asked
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &o.ListOptions, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	var err error
	if o.selection, err = c.selection(o.ListOptions); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if o.ResourceVersion != "" {
		if o.version, err = strconv.ParseUint(o.ResourceVersion, 10, 64); err != nil {
			return apierrors.NewBadRequest(err.Error())
		}
	}
	c.verb = "list"
	if o.Watch {
		c.verb = "watch"
	}
	if err := s.admit(c, nil, nil); err != nil {
		return err
	}
	if o.Watch {
		return s.watch(c, o)
	}
	return s.list(c, o)
}

func (c *call) selection(o metav1.ListOptions) (by selection, err error) {
	by = selection{namespace: c.key.Namespace}
	if by.labels, err = labels.Parse(o.LabelSelector); err != nil {
		return by, err
	}
	chosen, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return by, err
	}
	for _, part := range chosen.Requirements() {
		switch part.Field {
		case metav1.ObjectNameField:
			by.name = part.Value
		case "metadata.namespace":
			by.namespace = part.Value
		default:
			return by, fmt.Errorf("field label not supported: %s", part.Field)
		}
	}
	return by, nil
}

// page is where a list goes on, the token of which a client gets. Objects are as they are now, not as they were at that version.
type page struct {
	Version uint64 `json:"rv"`
	After   types.NamespacedName
}

// list answers with all selected objects, or with a page of them.
func (s *Server) list(c *call, o asked) error {
	var from page
	if o.Continue != "" {
		if text, err := base64.RawURLEncoding.DecodeString(o.Continue); err != nil || json.Unmarshal(text, &from) != nil {
			return apierrors.NewBadRequest("continue key is not valid")
		}
	}
	s.mu.Lock()
	items, version, forgotten := c.of.sorted(o.selection), s.version, c.of.forgotten
	s.mu.Unlock()
	switch {
	case o.version > version:
		return tooLarge(o.version, version)
	case o.Continue != "" && from.Version < forgotten:
		return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.")
	case o.Continue != "":
		version = from.Version
		items = slices.DeleteFunc(items, func(one *item) bool { return one.compare(&item{NamespacedName: from.After}) <= 0 })
	}
	list := c.of.empty("List")
	head := list.(metav1.ListMetaAccessor).GetListMeta()
	head.SetResourceVersion(strconv.FormatUint(version, 10))
	if limit := int(o.Limit); limit > 0 && limit < len(items) {
		if o.labels.Empty() {
			head.SetRemainingItemCount(new(int64(len(items) - limit)))
		}
		items = items[:limit]
		token, err := json.Marshal(page{version, items[limit-1].NamespacedName})
		if err != nil {
			return err
		}
		head.SetContinue(base64.RawURLEncoding.EncodeToString(token))
	}
	if strings.Contains(c.request.Header.Get("Accept"), "as=PartialObjectMetadataList") {
		answer(c.writer, http.StatusOK, c.media, heads(items, *head.(*metav1.ListMeta)))
		return nil
	}
	objects := make([]runtime.Object, len(items))
	for i, one := range items {
		objects[i] = one.object
	}
	if err := meta.SetList(list, objects); err != nil {
		return err
	}
	answer(c.writer, http.StatusOK, c.media, c.of.typed(list, "List"))
	return nil
}

// heads are the metadata of objects.
func heads(items []*item, head metav1.ListMeta) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
	list.ListMeta = head
	for _, one := range items {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: *one.object.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)})
	}
	return list
}

// tooLarge is the answer for a version that the server has not reached, which a kube-apiserver gives after three seconds.
func tooLarge(asked, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}
