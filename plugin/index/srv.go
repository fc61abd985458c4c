package index

import (
	"math"
	"strings"

	"github.com/miekg/dns"
)

// srv is what the SRV records of one name are made of.
type srv struct {
	*block
	service string // the service's own name, as it was asked
	ttl     uint32
	weight  uint16
}

// answerSRV answers with the SRV records of a node (RFC 2782; SPEC 2.3.2, 2.4.3) and, in the additional section, with the addresses of
// each target, as far as they fit. The answer section comes first: without all of it there are no addresses.
//
// Its parts have what they need on the stack one after the other. Each question has a goroutine of its own, whose stack grows by copying:
// a few hundred bytes more at the deepest point have made an answer a quarter slower.
func (b *block) answerSRV(a *Answer, q *question, n *node) {
	s := srv{block: b, service: q.qname, ttl: q.zone.TTL}
	if below := q.name.Below; below != "" {
		s.service = q.qname[len(below)+1:]
	}
	var few [8]target
	list, left, ok := s.first(n, few[:0], q.room)
	if !ok {
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

// first takes the first targets of a node, as take does, and settles their weight; ok is false if the node has none.
func (s *srv) first(n *node, list []target, room int) (taken []target, left int, ok bool) {
	var one [1]run
	walk := s.targetsOf(n, one[:0])
	if len(walk.runs) == 0 {
		return nil, room, false
	}
	s.weight = walk.weight()
	taken, left = s.take(&walk, list, math.MaxInt, room)
	return taken, left, true
}

// take takes at most so many targets, whose SRV records fit into so many bytes. It returns how many bytes are left: less than 0 if the next
// record does not fit. A target whose name would be too long for a message is left out: that name cannot be asked for either, and the
// others must still be sent.
func (s *srv) take(walk *targets, list []target, most, left int) ([]target, int) {
	if most = min(most, walk.atMost()); most > cap(list) {
		list = make([]target, 0, min(most, left/(sizeSRV+len(s.service))))
	}
	for len(list) < most {
		t, ok := walk.next()
		if !ok {
			break
		}
		length := s.nameLen(t)
		if length > maxName {
			walk.skipHost(t.host)
			continue
		}
		if left -= sizeSRV + length; left < 0 {
			break
		}
		list = append(list, t)
	}
	return list, left
}

// nameLen is the length of a target's name.
func (s *srv) nameLen(t target) int {
	if t.host == itself {
		return len(s.service)
	}
	return s.hosts.nameLen(s.hosts.places[t.host]) + 1 + len(s.service)
}

// records is one SRV record for each target. The targets are sorted by host.
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

// namesLen is the length of the names of all targets, which are written into one string.
func (s *srv) namesLen(list []target) (length int) {
	for i, t := range list {
		if t.host != itself && (i == 0 || t.host != list[i-1].host) {
			length += s.nameLen(t)
		}
	}
	return length
}

// writeName writes a host's full name.
func (h *hosts) writeName(names *strings.Builder, p place, service string) string {
	from := names.Len()
	names.WriteString(h.endpoint(p).Hostname)
	names.WriteByte('.')
	names.WriteString(h.slices[p.slice].Cluster)
	names.WriteByte('.')
	names.WriteString(service)
	return names.String()[from:]
}

// glueThatFits is how many address records of each family, in the targets' order, fit into so many bytes by whole sets (RFC 2181 9). Each
// record has a pointer for a name, as long as the targets stand before maxPointer; beyond it, fewer fit than this.
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

// addresses is how many a target has, of each family.
func (s *srv) addresses(t target) (v4, v6 int) {
	if t.host == itself {
		return len(s.addrs.v4), len(s.addrs.v6)
	}
	four, six := s.hosts.families(s.hosts.from(int(t.host)))
	return len(four), len(six)
}

// glue is the records of the targets' addresses, as many as fit into so many bytes.
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
			to.addAll(name, s.ttl, addrs{s.addrs.v4, upTo(cap(to.aaaa), s.addrs.v6)})
			continue
		}
		v4, v6 := s.hosts.families(s.hosts.from(int(t.host)))
		s.hosts.addAll(&to, name, s.ttl, v4, upTo(cap(to.aaaa)-len(to.aaaa), v6))
	}
	return to.rrs
}

// upTo is the whole list if there is room for it, and nothing otherwise.
func upTo[T any](room int, list []T) []T {
	if len(list) > room {
		return nil
	}
	return list
}
