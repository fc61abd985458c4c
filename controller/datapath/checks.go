package datapath

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// checkInterval is the pause between two connections to an endpoint that is checked. After a result
	// that contradicts what is known of the endpoint, it is fast.
	checkInterval = 5 * time.Second
	// MaxChecked is the maximum number of endpoints of one name in one cluster that are checked.
	MaxChecked = 250
	// maxChecks is the maximum number of endpoints of one cluster that are checked, of all names
	// together. Those of later names are not checked.
	maxChecks = 1000
)

// Checks are the endpoints of one cluster that are checked all the time, by name. The zero value has
// none. An endpoint fails after three connections in a row that were not accepted, and accepts again
// after two that were.
type Checks struct {
	names map[types.NamespacedName]map[Target]*check // nil for an endpoint that is not checked
}

// Endpoint is an endpoint that is checked because of a name.
type Endpoint struct {
	Name types.NamespacedName
	At   Target
}

// check is what is known of one endpoint.
type check struct {
	asked   time.Time // begin of the last connection
	waiting bool      // the last connection has neither been accepted nor failed
	failing bool
	row     int // results in a row that contradict failing
}

// returns is how many accepted connections in a row end a failure.
const returns = 2

// Follow sets the endpoints of a name. Endpoints that stay keep what is known of them. The value of
// a new one is whether it fails. Without endpoints, the name is forgotten.
func (c *Checks) Follow(name types.NamespacedName, targets map[Target]bool) {
	before := c.names[name]
	delete(c.names, name)
	if len(targets) == 0 {
		return
	}
	room := maxChecks
	for _, all := range c.names {
		for _, t := range all {
			if t != nil {
				room--
			}
		}
	}
	kept := make(map[Target]*check, len(targets))
	for _, at := range slices.SortedFunc(maps.Keys(targets), Target.Compare) {
		if kept[at] = before[at]; kept[at] == nil {
			kept[at] = &check{failing: targets[at]}
		}
		if room--; room < 0 {
			kept[at] = nil
		}
	}
	if c.names == nil {
		c.names = map[types.NamespacedName]map[Target]*check{}
	}
	c.names[name] = kept
}

// Failing returns the endpoints of a name, and whether each of them fails. One that is not checked,
// because there are too many, does not fail.
func (c *Checks) Failing(name types.NamespacedName) map[Target]bool {
	all := make(map[Target]bool, len(c.names[name]))
	for at, t := range c.names[name] {
		all[at] = t != nil && t.failing
	}
	return all
}

// Due returns the endpoint to connect to next, and notes that a connection begins now: the one that
// should have been asked first.
func (c *Checks) Due(now time.Time) (of Endpoint, ok bool) {
	of, due := c.next()
	if due.After(now) {
		return of, false
	}
	t := c.names[of.Name][of.At]
	t.asked, t.waiting = now, true
	return of, true
}

// next returns the endpoint that Due returns next, and when.
func (c *Checks) next() (first Endpoint, due time.Time) {
	due = never
	for name, all := range c.names {
		for at, t := range all {
			if t != nil && t.due().Before(due) {
				first, due = Endpoint{name, at}, t.due()
			}
		}
	}
	return first, due
}

// due returns when the endpoint should be asked.
func (t *check) due() time.Time {
	switch {
	case t.waiting:
		return never
	case t.asked.IsZero():
		return t.asked
	case t.row > 0:
		return t.asked.Add(fast)
	default:
		return t.asked.Add(checkInterval)
	}
}

// Forget notes that the connection that Due has begun has shown nothing.
func (c *Checks) Forget(of Endpoint) {
	if t := c.names[of.Name][of.At]; t != nil {
		t.waiting = false
	}
}

// Answer notes the result of the connection that Due has begun. It reports whether the endpoint
// fails from now on, or no longer.
func (c *Checks) Answer(of Endpoint, accepted bool) (changed bool) {
	t := c.names[of.Name][of.At]
	if t == nil {
		return false // it left meanwhile
	}
	t.waiting = false
	if accepted != t.failing {
		t.row = 0
		return false
	}
	t.row++
	if enough := map[bool]int{false: threshold, true: returns}[t.failing]; t.row < enough {
		return false
	}
	t.failing, t.row = !t.failing, 0
	return true
}
