package simulated

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// bookmark is where the next page of a list begins. Clients do not look into it.
type bookmark struct {
	Version   uint64 `json:"rv"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n"` // of the last object of the page before
}

// list returns the list that is asked for, or a page of it.
func (s *Server) list(of *store, encoding runtime.SerializerInfo, o options) (runtime.Object, error) {
	all, after, err := s.snapshot(of, o)
	if err != nil {
		return nil, err
	}
	head := metav1.ListMeta{ResourceVersion: strconv.FormatUint(all.version, 10)}
	begin := 0
	if after != nil {
		at, found := slices.BinarySearchFunc(all.items, after, (*item).compare)
		if begin = at; found {
			begin++
		}
	}
	var chosen []*item
	for i, one := range all.items[begin:] {
		if !o.has(one) {
			continue
		}
		if o.pages() && int64(len(chosen)) == o.Limit {
			last := chosen[len(chosen)-1]
			head.Continue = encodeBookmark(bookmark{all.version, last.namespace, last.name})
			if o.all() { // otherwise a kube-apiserver does not count either
				head.RemainingItemCount = new(int64(len(all.items) - begin - i))
			}
			s.mu.Lock()
			of.keep(all)
			s.mu.Unlock()
			break
		}
		chosen = append(chosen, one)
	}
	return of.kind.list(encoding, head, chosen)
}

// pages reports whether the limit counts: a list from the cache (version 0) is whole, as in a kube-apiserver.
func (o options) pages() bool { return o.Limit > 0 && o.ResourceVersion != "0" }

// snapshot returns the objects that a list is of, and the object that it begins after, which is nil for the first page.
func (s *Server) snapshot(of *store, o options) (all page, after *item, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.Continue != "" {
		at, err := decodeBookmark(o.Continue)
		if err != nil {
			return page{}, nil, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
		}
		i := slices.IndexFunc(of.pages, func(p page) bool { return p.version == at.Version })
		if i < 0 {
			return page{}, nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
		}
		return of.pages[i], &item{namespace: at.Namespace, name: at.Name}, nil
	}
	switch exact := o.ResourceVersionMatch == metav1.ResourceVersionMatchExact; {
	case o.version > s.version:
		return page{}, nil, tooLarge(o.version, s.version)
	case exact && o.version < s.version:
		return page{}, nil, tooOld(o.version, s.version)
	}
	return page{s.version, of.items}, nil, nil
}

// tooLarge is the error for a version that does not exist yet.
func tooLarge(version, current uint64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// tooOld is the error for a version from which changes are forgotten.
func tooOld(version, oldest uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// list returns a list of items. Protobuf needs the objects themselves; in JSON, each item is its encoding.
func (k *kind) list(encoding runtime.SerializerInfo, head metav1.ListMeta, items []*item) (runtime.Object, error) {
	gvk := k.WithKind(k.name + "List")
	if encoding.MediaType == runtime.ContentTypeJSON {
		list := &metav1.List{ListMeta: head, Items: []runtime.RawExtension{}} // not null
		list.SetGroupVersionKind(gvk)
		for _, one := range items {
			text, err := one.in(encoding)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, runtime.RawExtension{Raw: text})
		}
		return list, nil
	}
	objects := make([]runtime.Object, 0, len(items))
	for _, one := range items {
		object, err := one.object()
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	list := k.objects()
	list.GetObjectKind().SetGroupVersionKind(gvk)
	if err := meta.SetList(list, objects); err != nil {
		return nil, err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	accessor.SetResourceVersion(head.ResourceVersion)
	accessor.SetContinue(head.Continue)
	accessor.SetRemainingItemCount(head.RemainingItemCount)
	return list, nil
}

func encodeBookmark(b bookmark) string {
	text, _ := json.Marshal(b) // strings and numbers always marshal
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeBookmark(text string) (b bookmark, err error) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(decoded, &b)
}
