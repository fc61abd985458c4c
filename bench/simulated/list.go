package simulated

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// list returns the list that is asked for.
func (s *Server) list(of *store, encoding runtime.SerializerInfo, o options) (runtime.Object, error) {
	s.mu.Lock()
	items, version := of.items, s.version
	s.mu.Unlock()
	switch exact := o.ResourceVersionMatch == metav1.ResourceVersionMatchExact; {
	case o.Continue != "":
		return nil, apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
	case o.version > version:
		return nil, tooLarge(o.version, version)
	case exact && o.version < version:
		return nil, tooOld(o.version, version)
	}
	var chosen []*item
	for _, one := range items {
		if o.has(one) {
			chosen = append(chosen, one)
		}
	}
	return of.kind.list(encoding, version, chosen)
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
func (k *kind) list(encoding runtime.SerializerInfo, version uint64, items []*item) (runtime.Object, error) {
	gvk := k.WithKind(k.name + "List")
	if encoding.MediaType == runtime.ContentTypeJSON {
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}, Items: []runtime.RawExtension{}} // not null
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
	accessor.SetResourceVersion(strconv.FormatUint(version, 10))
	return list, nil
}
