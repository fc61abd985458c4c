package peers

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/member"
)

// toggling is a peer with many names that changes its announcement sixty times a second. The time is that of the test.
type toggling struct {
	*peer
	now    time.Time
	called map[types.NamespacedName]int
	moved  int // how often the announcement in effect has changed
}

func newToggling(t *testing.T, names int) *toggling {
	t.Helper()
	at := &toggling{now: time.Unix(1_000_000, 0), called: map[types.NamespacedName]int{}}
	r := New(Options{Home: "home", Now: func() time.Time { return at.now }})
	r.home.uid = "home"
	r.OnChange(func(name types.NamespacedName) { at.called[name]++ })
	c := &connection{contents: newContents(), host: "east", heard: member.Announcement{ID: "east", UID: "east", Renewed: at.now}, transport: &transport{}, budget: newBudget()}
	at.peer = &peer{registry: r, id: "east", connection: c, wake: make(chan struct{}, 1)}
	c.peer, r.peers["east"] = at.peer, at.peer
	c.contents.synced = [resources]bool{true, true, true}
	for i := range names {
		id := types.NamespacedName{Namespace: fmt.Sprint("ns-", i%2), Name: fmt.Sprint("s", i)}
		c.contents.exports.put(id, &merge.Export{Created: metav1.Unix(int64(i), 0)}, nil)
	}
	at.evaluate()
	if len(at.called) != names || at.condition.reason != Connected {
		t.Fatalf("%d names, %+v", len(at.called), at.condition)
	}
	clear(at.called)
	return at
}

// toggle makes changes for a time, each of which the Registry sees at once.
func (at *toggling) toggle(d time.Duration, change func(a *member.Announcement, n int)) {
	c := at.connection
	for n, end := 0, at.now.Add(d); at.now.Before(end); n++ {
		at.now = at.now.Add(time.Second / 60)
		before := c.member
		change(&c.heard, n)
		c.heard.Renewed = at.now
		c.stored(ofMember)(nil)
		at.evaluate()
		if !before.Same(c.member) {
			at.moved++
		}
	}
}

// A peer that changes its ID again and again is a bounded work for this cluster: its names are compared only where something has
// changed, and it is believed after ever longer pauses.
func TestAPeerThatTogglesItsID(t *testing.T) {
	at := newToggling(t, 1000)
	at.toggle(time.Minute, func(a *member.Announcement, n int) { a.ID = []string{"west", "east"}[n%2] })
	if at.moved > 20 || len(at.called) > 0 {
		t.Errorf("%d changes, and %d names are called, of which none has changed", at.moved, len(at.called))
	}
	// What has changed meanwhile is called when it is believed again, and nothing else.
	at.connection.heard.ID = "west"
	at.connection.stored(ofMember)(nil)
	changed := types.NamespacedName{Namespace: "ns-0", Name: "s0"}
	at.connection.stored(ofExports)(at.connection.contents.exports.put(changed, &merge.Export{Created: metav1.Unix(9, 0)}, nil))
	at.evaluate()
	if at.condition.reason != WrongID || len(at.called) > 0 {
		t.Errorf("it is %s, and %v are called", at.condition.reason, at.called)
	}
	at.now = at.now.Add(longestHold)
	at.connection.heard.ID, at.connection.heard.Renewed = "east", at.now
	at.connection.stored(ofMember)(nil)
	at.evaluate()
	if at.condition.reason != Connected || len(at.called) != 1 || at.called[changed] != 1 {
		t.Errorf("it is %s, and %v are called", at.condition.reason, at.called)
	}
}

// Of a change of the namespaces that a peer exports from, only the names there are called.
func TestAPeerThatTogglesItsNamespaces(t *testing.T) {
	at := newToggling(t, 1000)
	at.toggle(time.Minute, func(a *member.Announcement, n int) { a.Limited, a.Exports = true, []string{"ns-0", "ns-0,ns-1"}[n%2] })
	calls := 0
	for name, n := range at.called {
		if calls += n; name.Namespace == "ns-0" {
			t.Errorf("%s is called, which is exported all the time", name)
		}
	}
	if at.moved > 20 || calls > 500*at.moved {
		t.Errorf("%d changes, %d calls", at.moved, calls)
	}
}
