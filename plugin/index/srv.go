package index

import (
	"math"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// srv contains what the SRV records of one name are made from.
type srv struct {
	*block
	service string // the name of the service, in the spelling of the question
	ttl     uint32
	weight  uint16
}

// answerSRV adds the SRV records of a node (RFC 2782; SPEC 2.3.2, 2.4.3) and, in the additional
// section, the addresses of each target, as far as they fit. The answer section has priority: if it
// is incomplete, there are no addresses.
//
// Its parts use the stack one after another. Each question has its own goroutine, whose stack grows
// by copying: a few hundred bytes more at the deepest point made an answer a quarter slower.
func (b *block) answerSRV(a *Answer, q *question, n *node) {
	s := srv{block: b, service: q.qname, ttl: q.zone.TTL}
	if below := q.name.Below; below != "" {
		s.service = q.qname[len(below)+1:]
	}
	var few [8]target
	list, left := s.first(n, few[:0], q.room)
	if s.weight == 0 {
		return
	}
	a.Answer = s.records(q.qname, list)
	if a.Truncated = left < 0; a.Truncated {
		return
	}
	a.Additional = s.glue(list, a.Answer, left)
	if sizeQuestion(q.qname)+q.room-left > maxPointer {
		a.fitGlue(q)
	}
}

// first takes the targets whose SRV records fit the given number of bytes: all, or if not all fit,
// some from a random one on. It returns the remaining bytes, negative if there are more, and sets the
// weight: 0 if the node has no target.
func (s *srv) first(n *node, list []target, room int) (taken []target, left int) {
	var w walk
	w.start(s.block, n, false)
	s.weight = w.weight()
	if taken, left = s.take(&w, list, math.MaxInt, room); left < 0 {
		w.start(s.block, n, true)
		taken, left = s.take(&w, taken[:0], math.MaxInt, room)
	}
	if w.known != nil { // a host can be in several groups, and its addresses are needed once
		slices.SortFunc(taken, target.compare)
	}
	return taken, left
}

// take takes at most the given number of targets, whose SRV records fit the given number of bytes.
// It returns the remaining bytes, negative if the next record does not fit. It leaves out a target
// whose name would be too long for a message: that name cannot be queried, and the others must
// still be sent.
func (s *srv) take(w *walk, list []target, most, left int) ([]target, int) {
	if n := min(most, (w.until-w.host)*w.width()); n > cap(list) {
		list = make([]target, 0, min(n, left/(sizeSRV+len(s.service))))
	}
	for len(list) < most {
		t, ok := w.step()
		if !ok {
			break
		}
		length := s.nameLen(t)
		if length > maxName {
			w.skip()
			continue
		}
		if left -= sizeSRV + length; left < 0 {
			break
		}
		list = append(list, t)
	}
	return list, left
}

// nameLen returns the length of a target's name.
func (s *srv) nameLen(t target) int {
	if t.host == itself {
		return len(s.service)
	}
	return s.hosts.nameLen(s.hosts.places[t.host]) + 1 + len(s.service)
}

// records returns one SRV record for each target. The targets are sorted by host.
func (s *srv) records(owner string, list []target) []dns.RR {
	records := make([]dns.SRV, len(list))
	rrs := make([]dns.RR, len(list))
	var names strings.Builder
	names.Grow(s.namesLen(list))
	for i, t := range list {
		name := s.service
		switch {
		case t.host == itself:
		case i > 0 && t.host == list[i-1].host:
			name = records[i-1].Target
		default:
			name = s.hosts.writeName(&names, s.hosts.places[t.host], s.service)
		}
		records[i] = dns.SRV{Hdr: header(owner, dns.TypeSRV, s.ttl), Weight: s.weight, Port: t.number, Target: name}
		rrs[i] = &records[i]
	}
	return rrs
}

// namesLen returns the length of the names of all targets, which are written into one string.
func (s *srv) namesLen(list []target) (length int) {
	for i, t := range list {
		if t.host != itself && (i == 0 || t.host != list[i-1].host) {
			length += s.nameLen(t)
		}
	}
	return length
}

// writeName writes the full name of a host.
func (h *hosts) writeName(names *strings.Builder, p place, service string) string {
	from := names.Len()
	names.WriteString(h.endpoint(p).Hostname)
	names.WriteByte('.')
	names.WriteString(h.parts[p.slice].Cluster)
	names.WriteByte('.')
	names.WriteString(service)
	return names.String()[from:]
}

// glueThatFits returns how many address records of each family, in the order of the targets, fit
// the given number of bytes as whole sets (RFC 2181 9). The name of each record is a pointer if its
// target is before maxPointer. Beyond it, fewer records fit.
func (s *srv) glueThatFits(list []target, left int) (v4, v6 int) {
	for i, t := range list {
		if i > 0 && t.host == list[i-1].host {
			continue
		}
		n4, n6 := s.addresses(t)
		if left -= n4 * sizeA; left < 0 {
			break
		}
		v4 += n4
		if left -= n6 * sizeAAAA; left < 0 {
			break
		}
		v6 += n6
	}
	return v4, v6
}

// addresses returns the number of addresses of a target, of each family.
func (s *srv) addresses(t target) (v4, v6 int) {
	if t.host == itself {
		all := s.addrs()
		return len(all.v4), len(all.v6)
	}
	four, six := s.hosts.families(s.hosts.from(int(t.host)))
	return len(four), len(six)
}

// glue returns the address records of the targets, as many as fit the given number of bytes.
func (s *srv) glue(list []target, answer []dns.RR, left int) []dns.RR {
	to := roomFor(s.glueThatFits(list, left))
	for i, t := range list {
		if len(to.rrs) == cap(to.rrs) {
			break
		}
		if i > 0 && t.host == list[i-1].host {
			continue
		}
		name := answer[i].(*dns.SRV).Target
		if t.host == itself {
			all := s.addrs()
			to.addAll(name, s.ttl, addrs{all.v4, upTo(cap(to.aaaa), all.v6)})
			continue
		}
		v4, v6 := s.hosts.families(s.hosts.from(int(t.host)))
		s.hosts.addAll(&to, name, s.ttl, v4, upTo(cap(to.aaaa)-len(to.aaaa), v6))
	}
	return to.rrs
}

// upTo returns the whole list if there is space for it, and otherwise nothing.
func upTo[T any](room int, list []T) []T {
	if len(list) > room {
		return nil
	}
	return list
}
