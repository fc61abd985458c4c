package apiserver

import (
	"bytes"
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// item is one state of an object. Nobody edits it.
type item struct {
	types.NamespacedName
	object  client.Object
	version uint64
	before  *item // the state before, nil for a new object
	gone    bool  // the object was deleted; its last state is this one
	sent    *atomic.Pointer[encoded]
}

// encoded is an object as watches got it last. Each client that connects again gets all objects, mostly in the same encoding.
type encoded struct {
	media string
	text  []byte
}

// text returns an object in an encoding.
func (i *item) text(of *kind, media runtime.SerializerInfo) ([]byte, error) {
	if last := i.sent.Load(); last != nil && last.media == media.MediaType {
		return last.text, nil
	}
	text, err := of.encode(i.object, media)
	if err == nil {
		i.sent.Store(&encoded{media.MediaType, bytes.Clone(text)}) // without spare capacity
	}
	return text, err
}

func (i *item) compare(other *item) int {
	return cmp.Or(strings.Compare(i.Namespace, other.Namespace), strings.Compare(i.Name, other.Name))
}

// store has the objects of one kind, and the last changes of them. The Server's lock guards it.
type store struct {
	*kind
	items map[types.NamespacedName]*item
	// changes are only appended to or replaced.
	changes []*item
	// forgotten is the version of the last change that is not in changes.
	forgotten uint64
	// changed is closed by the next change.
	changed chan struct{}
}

func newStore(k *kind) *store {
	return &store{kind: k, items: map[types.NamespacedName]*item{}, changed: make(chan struct{})}
}

// history is how many changes are kept at least.
const history = 1000

// put stores the next state of an object, or removes it, and wakes the watches.
func (s *Server) put(c *call, object client.Object, gone bool) *item {
	of := c.of
	s.version++
	object.SetResourceVersion(strconv.FormatUint(s.version, 10))
	key := client.ObjectKeyFromObject(object)
	next := &item{key, object, s.version, of.items[key], gone, new(atomic.Pointer[encoded])}
	if next.before != nil {
		cut := *next.before
		cut.before = nil // not the whole history
		next.before = &cut
	}
	if gone {
		delete(of.items, key)
	} else {
		of.items[key] = next
	}
	of.changes = append(of.changes, next)
	if len(of.changes) > 2*history {
		of.forget(len(of.changes) - history)
	}
	close(of.changed)
	of.changed = make(chan struct{})
	if s.options.Stored != nil {
		var old, now client.Object
		if next.before != nil {
			old = next.before.object
		}
		if !gone {
			now = object
		}
		s.options.Stored(c.asked(old, now))
	}
	return next
}

// Backup is the state of a Server at a time.
type Backup struct {
	version uint64
	items   []map[types.NamespacedName]*item
	leased  map[netip.Addr]types.NamespacedName
}

// Backup returns the state, as a snapshot of etcd has it.
func (s *Server) Backup() *Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &Backup{version: s.version, leased: maps.Clone(s.leased)}
	for _, of := range s.stores {
		b.items = append(b.items, maps.Clone(of.items))
	}
	return b
}

// Restore sets the Server back, while nobody is connected: watches would not notice it. Also the next versions are those that were given before.
func (s *Server) Restore(b *Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.leased = b.version, maps.Clone(b.leased)
	for i, of := range s.stores {
		of.items, of.changes, of.forgotten = maps.Clone(b.items[i]), nil, b.version
	}
}

// Forget forgets the former versions of all objects, as etcd does when it is compacted.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stores {
		of.forget(len(of.changes))
	}
}

// Objects returns all objects. Nobody may edit them.
func (s *Server) Objects() (all []client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.stores {
		for _, one := range of.sorted(everything) {
			all = append(all, one.object)
		}
	}
	return all
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

// sorted returns the selected objects in the order of etcd.
func (s *store) sorted(by selection) []*item {
	items := make([]*item, 0, len(s.items))
	for one := range maps.Values(s.items) {
		if by.has(one.object) {
			items = append(items, one)
		}
	}
	slices.SortFunc(items, (*item).compare)
	return items
}

// selection is the part of the objects that a request asks for.
type selection struct {
	namespace, name string // "" for all
	labels          labels.Selector
}

var everything = selection{labels: labels.Everything()}

func (s selection) has(o client.Object) bool {
	return (s.namespace == "" || o.GetNamespace() == s.namespace) && (s.name == "" || o.GetName() == s.name) && s.labels.Matches(labels.Set(o.GetLabels()))
}

// shallow returns a copy of an object that shares everything below its fields.
func shallow(object runtime.Object) runtime.Object {
	v := reflect.ValueOf(object).Elem()
	c := reflect.New(v.Type())
	c.Elem().Set(v)
	return c.Interface().(runtime.Object)
}
