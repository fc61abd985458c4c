package simulated

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// kind is a kind of objects that a Server has, in the encoding that controllers ask for.
type kind struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
	encoding   runtime.SerializerInfo
}

var jsonEncoding, protobufEncoding = encoding(runtime.ContentTypeJSON), encoding(runtime.ContentTypeProtobuf)

var kinds = []kind{
	{mcsv1beta1.SchemeGroupVersion.WithKind(mcsv1beta1.ServiceExportKindName), mcsv1beta1.ServiceExportPluralName, true, jsonEncoding},
	{corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces", false, protobufEncoding},
	{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), "endpointslices", true, protobufEncoding},
}

func encoding(media string) runtime.SerializerInfo {
	info, found := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(world.Scheme).SupportedMediaTypes(), media)
	if !found {
		panic("apimachinery lacks " + media)
	}
	return info
}

// path is where the objects of all namespaces are.
func (k kind) path() string { return groupPath(k.GroupVersion()) + "/" + k.resource }

func (k kind) encode(object runtime.Object) ([]byte, error) {
	object.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	text, err := runtime.Encode(k.encoding.Serializer, object)
	return bytes.Clone(text), err // without the spare capacity, which would stay in memory
}

// empty returns an object without content, or a list of them.
func (k kind) empty(suffix string) runtime.Object {
	object, err := world.Scheme.New(k.GroupVersion().WithKind(k.Kind + suffix))
	if err != nil {
		panic(err) // the types are compiled in
	}
	return object
}

// item is one state of an object. It does not change. The object itself is not kept: decoded, it needs several times the memory.
type item struct {
	types.NamespacedName
	labels  labels.Set
	version uint64
	added   bool // there was no earlier state
	text    []byte
}

func (i *item) compare(other *item) int {
	return cmp.Or(strings.Compare(i.Namespace, other.Namespace), strings.Compare(i.Name, other.Name))
}

// store has the objects of one kind, and the last changes of them. The Server's lock guards it.
type store struct {
	kind
	items map[types.NamespacedName]*item
	// changes are only appended to or replaced.
	changes []*item
	// forgotten is the version of the last change that is not in changes.
	forgotten uint64
	// changed is closed by the next change.
	changed chan struct{}
}

// history is how many changes are kept at least.
const history = 1000

// created is the time of objects that have none.
var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// uid returns the UID for a text, in the form of those of an API server.
func uid(text string) types.UID {
	sum := sha256.Sum256([]byte(text))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// Apply stores an object as it is given, with what an API server sets in each, and the watches see it.
func (s *Server) Apply(object client.Object) error {
	gvk, err := apiutil.GVKForObject(object, world.Scheme)
	if err != nil {
		return err
	}
	of := s.stores[slices.IndexFunc(kinds, func(k kind) bool { return k.GroupVersionKind == gvk })]
	key := client.ObjectKeyFromObject(object)
	if object.GetUID() == "" {
		object.SetUID(uid(of.resource + "/" + key.String()))
	}
	object.SetCreationTimestamp(created)
	s.mu.Lock()
	defer s.mu.Unlock()
	object.SetResourceVersion(strconv.FormatUint(s.version+1, 10))
	text, err := of.encode(object)
	if err != nil {
		return err
	}
	s.version++
	of.put(&item{NamespacedName: key, labels: maps.Clone(object.GetLabels()), version: s.version, added: of.items[key] == nil, text: text})
	return nil
}

// put stores a state, forgets the oldest changes, and wakes the watches.
func (s *store) put(one *item) {
	s.items[one.NamespacedName] = one
	s.changes = append(s.changes, one)
	if len(s.changes) > 2*history {
		s.forget(len(s.changes) - history)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget forgets the oldest changes. Those that remain are copied: a watch can be reading the old slice.
func (s *store) forget(count int) {
	if count > 0 {
		s.forgotten = s.changes[count-1].version
		s.changes = slices.Clone(s.changes[count:])
	}
}

// after returns the changes after a version, or false if some of them are forgotten.
func (s *store) after(version uint64) (changes []*item, known bool) {
	at, _ := slices.BinarySearchFunc(s.changes, version+1, func(one *item, v uint64) int { return cmp.Compare(one.version, v) })
	return slices.Clip(s.changes[at:]), version >= s.forgotten
}

// Forget forgets all changes: a watch can then only begin at the current version, or with all objects. Running watches go on. It is
// what the restart of an API server does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stores {
		of.forget(len(of.changes))
	}
}

// snapshot returns the selected objects in the order of etcd, and the version of which they are.
func (s *Server) snapshot(of *store, by selection) (items []*item, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items = slices.SortedFunc(maps.Values(of.items), (*item).compare)
	return slices.DeleteFunc(items, func(one *item) bool { return !by.has(one) }), s.version
}
