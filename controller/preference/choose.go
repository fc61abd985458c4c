package preference

import (
	"maps"
	"slices"
	"time"
)

// Memory is what a choice needs of the choices before. The zero value is that of a new process.
type Memory struct {
	// InUse is the text of the entry in use: "" if it is not known, none if no entry was sufficient.
	InUse string
	// Since is when each sufficient entry became sufficient, by its text.
	Since map[string]time.Time
}

// none is Memory.InUse while no entry is sufficient. No entry has this text.
const none = "-"

// Choice is the result of a policy.
type Choice struct {
	// Entry is the position of the entry in use, from 0. It is the number of entries if no entry is
	// sufficient.
	Entry int
	// Clusters are the IDs of the clusters that get the traffic. Next are those that would get it
	// if the entry in use were no longer sufficient.
	Clusters, Next map[string]bool
	// Memory is for the next choice.
	Memory Memory
	// Again is the time until an earlier entry can be used, 0 for never.
	Again time.Duration
}

// Choose returns the clusters that get the traffic. The order of clusters does not matter.
func (p Policy) Choose(clusters []Cluster, m Memory, now time.Time) Choice {
	s := selection{Policy: p, clusters: clusters, now: now, since: map[string]time.Time{}}
	for _, c := range clusters {
		if c.Home {
			s.home = c
		}
	}
	for i, e := range p.Entries {
		if !s.sufficient(i) {
			continue
		}
		began, known := m.Since[e.text]
		if !known {
			began = now
		}
		s.since[e.text] = began
	}
	c := Choice{Entry: s.next(s.current(m)), Clusters: map[string]bool{}}
	c.Again = s.wait(c.Entry)
	c.Memory = Memory{InUse: none, Since: s.since}
	if c.Entry < len(p.Entries) {
		c.Memory.InUse = p.Entries[c.Entry].text
	}
	c.Next = map[string]bool{}
	next := s.after(c.Entry)
	for _, cluster := range clusters {
		if s.serves(c.Entry, cluster) {
			c.Clusters[cluster.ID] = true
		}
		if s.serves(next, cluster) {
			c.Next[cluster.ID] = true
		}
	}
	return c
}

// selection is the state of one call of Choose.
type selection struct {
	Policy
	clusters []Cluster
	home     Cluster
	now      time.Time
	since    map[string]time.Time // of the sufficient entries
}

func (s *selection) sufficient(entry int) bool {
	ready := 0
	for _, c := range s.clusters {
		if s.Entries[entry].has(c, s.home) {
			ready += c.Ready
		}
	}
	return ready >= s.MinReady
}

// serves reports whether a cluster gets traffic while an entry is in use.
func (s *selection) serves(entry int, c Cluster) bool {
	if entry < len(s.Entries) {
		return s.Entries[entry].has(c, s.home)
	}
	return slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.has(c, s.home) })
}

// unknown is the current entry of an import that gets no traffic yet, or whose list has changed:
// there is nothing to return from.
const unknown = -1

// current returns the entry in use before this choice. After a restart of the process it is the
// first entry with all clusters that get traffic.
func (s *selection) current(m Memory) int {
	if i := slices.IndexFunc(s.Entries, func(e Entry) bool { return e.text == m.InUse }); i >= 0 {
		return i
	}
	connected := slices.DeleteFunc(slices.Clone(s.clusters), func(c Cluster) bool { return !c.Connected })
	switch {
	case m.InUse == none:
		return len(s.Entries)
	case len(connected) == 0, m.InUse != "": // The list has changed.
		return unknown
	}
	for i := range s.Entries {
		if !slices.ContainsFunc(connected, func(c Cluster) bool { return !s.serves(i, c) }) {
			return i
		}
	}
	return len(s.Entries)
}

// next returns the entry to use.
func (s *selection) next(current int) int {
	earlier := len(s.Entries) // the first sufficient entry before the current one
	for i, e := range s.Entries {
		switch began, sufficient := s.since[e.text]; {
		case !sufficient:
		case i >= current, s.now.Sub(began) >= s.ReturnAfter:
			return i
		default:
			earlier = min(earlier, i)
		}
	}
	if current == len(s.Entries) {
		return current // All clusters of the list serve until an entry has been sufficient long enough.
	}
	return earlier
}

// after returns the first sufficient entry after the one in use, or the number of entries.
func (s *selection) after(used int) int {
	for i := used + 1; i < len(s.Entries); i++ {
		if _, sufficient := s.since[s.Entries[i].text]; sufficient {
			return i
		}
	}
	return len(s.Entries)
}

// wait returns the time until an entry before the one in use can be used.
func (s *selection) wait(used int) (again time.Duration) {
	for _, e := range s.Entries[:used] {
		if began, sufficient := s.since[e.text]; sufficient {
			if left := max(s.ReturnAfter-s.now.Sub(began), time.Millisecond); again == 0 || left < again {
				again = left
			}
		}
	}
	return again
}

// Equal reports whether two memories lead to the same choices.
func (m Memory) Equal(other Memory) bool {
	return m.InUse == other.InUse && maps.EqualFunc(m.Since, other.Since, time.Time.Equal)
}
