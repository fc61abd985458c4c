package reconcile

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/observed"
)

// expectFor is how long the caches may take to show a write. A watch that is cut takes longer: then the plan is made from what they
// show, and the API server refuses what rests on an old version.
const expectFor = 5 * time.Second

// expected are the writes for each name that the caches have not shown yet. A plan without them would make them again, and be
// refused. The zero value is empty.
type expected struct {
	mu sync.Mutex
	by map[types.NamespacedName]expectation
}

type expectation struct {
	writes []written
	until  time.Time
}

// written is an object that has been written.
type written struct {
	kind   reflect.Type
	name   string
	before string // the version that is no longer there; empty of an object that was made
}

// wrote notes a write for a name.
func (e *expected) wrote(of types.NamespacedName, object client.Object, before string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[types.NamespacedName]expectation{}
	}
	writes := append(e.by[of].writes, written{reflect.TypeOf(object), object.GetName(), before})
	e.by[of] = expectation{writes, now.Add(expectFor)}
}

// missing is true while the state has one of the objects as it was before.
func (e *expected) missing(of types.NamespacedName, state observed.State, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, found := e.by[of]
	if !found {
		return false
	}
	x.writes = slices.DeleteFunc(x.writes, func(w written) bool { return version(state, w) != w.before })
	if len(x.writes) == 0 || now.After(x.until) {
		delete(e.by, of)
		return false
	}
	e.by[of] = x
	return true
}

// version is the one that the state has of an object; empty if it has none.
func version(state observed.State, of written) string {
	has := func(object client.Object) bool {
		return reflect.TypeOf(object) == of.kind && !reflect.ValueOf(object).IsNil() && object.GetName() == of.name
	}
	for _, object := range []client.Object{state.Import, state.Service} {
		if has(object) {
			return object.GetResourceVersion()
		}
	}
	if state.Clusterset != nil && has(state.Clusterset.Export) {
		return state.Clusterset.Export.ResourceVersion
	}
	for _, object := range state.Slices {
		if has(object) {
			return object.GetResourceVersion()
		}
	}
	for _, object := range state.Owned {
		if has(object) {
			return object.GetResourceVersion()
		}
	}
	return ""
}
