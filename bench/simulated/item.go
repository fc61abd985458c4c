package simulated

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// item is one state of an object. It does not change. The object itself is not kept: decoded, it needs several times the memory.
type item struct {
	kind            *kind
	namespace, name string
	labels          labels.Set
	version         uint64
	text            []byte                 // in the kind's native encoding
	json            atomic.Pointer[[]byte] // of a built-in kind, if somebody has asked for it
}

// newItem encodes an object with a version. It sets the object's resourceVersion.
func newItem(k *kind, object client.Object, version uint64) (*item, error) {
	object.SetResourceVersion(strconv.FormatUint(version, 10))
	text, err := k.encode(k.native(), object)
	if err != nil {
		return nil, err
	}
	return &item{
		kind: k, namespace: object.GetNamespace(), name: object.GetName(), labels: maps.Clone(object.GetLabels()), version: version, text: text,
	}, nil
}

// compare orders items as etcd does, which lists come from.
func (i *item) compare(other *item) int {
	return cmp.Or(strings.Compare(i.namespace, other.namespace), strings.Compare(i.name, other.name))
}

func (i *item) object() (client.Object, error) { return i.kind.decode(i.kind.native(), i.text) }

// in returns the object in an encoding. Each is made once.
func (i *item) in(encoding runtime.SerializerInfo) ([]byte, error) {
	if encoding.MediaType == i.kind.native().MediaType {
		return i.text, nil
	}
	if encoding.MediaType != runtime.ContentTypeJSON {
		return nil, fmt.Errorf("%s has no encoding %s", i.kind.name, encoding.MediaType)
	}
	if made := i.json.Load(); made != nil {
		return *made, nil
	}
	object, err := i.object()
	if err != nil {
		return nil, err
	}
	text, err := i.kind.encode(encoding, object)
	if err == nil {
		i.json.Store(&text)
	}
	return text, err
}

// at returns the same object at another version, for the event of its deletion.
func (i *item) at(version uint64) (*item, error) {
	object, err := i.object()
	if err != nil {
		return nil, err
	}
	return newItem(i.kind, object, version)
}

// selection is the part of the objects that a request asks for.
type selection struct {
	namespace string // "" for all
	labels    labels.Selector
	fields    fields.Selector
}

// has reports whether an item is selected. No item is not.
func (s selection) has(i *item) bool {
	return i != nil && (s.namespace == "" || s.namespace == i.namespace) && s.labels.Matches(i.labels) &&
		(s.fields.Empty() || s.fields.Matches(fields.Set{"metadata.name": i.name, "metadata.namespace": i.namespace}))
}
