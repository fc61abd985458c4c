package index

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// The records of an answer are made for that answer alone: nothing that a plugin after us does to them can reach another client.
// They come from one array for each section, so that fifty records cost no more allocations than one. Only the addresses of a headless
// service with many endpoints are kept from one answer to the next, see longAnswer.

// maxName is the length of the longest name in text, its final dot included: 255 bytes in a message (RFC 1035 3.1).
const maxName = 254

type recordA struct {
	rr dns.A
	ip [4]byte
}

type recordAAAA struct {
	rr dns.AAAA
	ip [16]byte
}

func header(name string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// addressRecords is room for the A and AAAA records of one section.
type addressRecords struct {
	a    []recordA
	aaaa []recordAAAA
	rrs  []dns.RR
}

func roomFor(v4, v6 int) addressRecords {
	return addressRecords{room[recordA](v4), room[recordAAAA](v6), room[dns.RR](v4 + v6)}
}

func (r *addressRecords) add(name string, ttl uint32, ip netip.Addr) {
	if ip.Is4() {
		r.add4(name, ttl, ip.As4())
	} else {
		r.add6(name, ttl, ip.As16())
	}
}

// add4 and add6 write one record. There has to be room for it: a record must not move once it is pointed at.
func (r *addressRecords) add4(name string, ttl uint32, ip [4]byte) {
	r.a = r.a[:len(r.a)+1]
	record := &r.a[len(r.a)-1]
	record.ip = ip
	h := &record.rr.Hdr
	h.Name, h.Rrtype, h.Class, h.Ttl = name, dns.TypeA, dns.ClassINET, ttl
	record.rr.A = record.ip[:]
	r.rrs = append(r.rrs, &record.rr)
}

func (r *addressRecords) add6(name string, ttl uint32, ip [16]byte) {
	r.aaaa = r.aaaa[:len(r.aaaa)+1]
	record := &r.aaaa[len(r.aaaa)-1]
	record.ip = ip
	record.rr.Hdr = header(name, dns.TypeAAAA, ttl)
	record.rr.AAAA = record.ip[:]
	r.rrs = append(r.rrs, &record.rr)
}

func (r *addressRecords) addAll(name string, ttl uint32, a addrs) {
	for _, ip := range a.v4 {
		r.add4(name, ttl, ip)
	}
	for _, ip := range a.v6 {
		r.add6(name, ttl, ip)
	}
}

// recordsOf is the A and AAAA records of one name.
func recordsOf(name string, ttl uint32, a addrs) []dns.RR {
	r := roomFor(len(a.v4), len(a.v6))
	r.addAll(name, ttl, a)
	return r.rrs
}

// records is the A and AAAA records of one host.
func (h *hosts) records(name string, ttl uint32, host []place) []dns.RR {
	r := roomFor(count(h.ips(host)))
	for ip := range h.ips(host) {
		r.add(name, ttl, ip)
	}
	return r.rrs
}

// recordsSRV writes the SRV records of targets and, for the additional section, the addresses of each target (RFC 2782; SPEC 2.3.2,
// 2.4.3). Targets are sorted by host. A target whose name would be too long for a message is left out: that name cannot be asked
// for either, and the others must still be sent.
func recordsSRV(owner, service string, ttl uint32, b *block, targets []target) (answer, glue []dns.RR) {
	names := targetNames(service, b, targets)
	records := make([]dns.SRV, len(targets))
	answer = make([]dns.RR, 0, len(targets))
	additional := b.roomForGlue(targets)
	weight := uint16(max(1, 100/max(1, len(targets)))) // equal shares, as CoreDNS' kubernetes plugin gives them
	for i, t := range targets {
		if names[i] == "" {
			continue
		}
		records[i] = dns.SRV{Hdr: header(owner, dns.TypeSRV, ttl), Weight: weight, Port: t.number, Target: names[i]}
		answer = append(answer, &records[i])
		if i == 0 || t.host != targets[i-1].host {
			b.addGlue(&additional, names[i], ttl, t)
		}
	}
	return answer, additional.rrs
}

func (b *block) roomForGlue(targets []target) addressRecords {
	v4, v6 := 0, 0
	for i, t := range targets {
		switch {
		case t.host == itself:
			v4, v6 = len(b.addrs.v4), len(b.addrs.v6)
		case i == 0 || t.host != targets[i-1].host:
			n4, n6 := count(b.hosts.ips(b.hosts.from(int(t.host))))
			v4, v6 = v4+n4, v6+n6
		}
	}
	return roomFor(v4, v6)
}

func (b *block) addGlue(to *addressRecords, name string, ttl uint32, t target) {
	if t.host == itself {
		to.addAll(name, ttl, b.addrs)
		return
	}
	for ip := range b.hosts.ips(b.hosts.from(int(t.host))) {
		to.add(name, ttl, ip)
	}
}

// targetNames writes the names of all targets, "" for one too long, into one string.
func targetNames(service string, b *block, targets []target) []string {
	names := make([]string, len(targets))
	size := 0
	for _, t := range targets {
		if t.host != itself {
			size += b.hosts.nameLen(b.hosts.places[t.host]) + 1 + len(service)
		}
	}
	var all strings.Builder
	all.Grow(size)
	for i, t := range targets {
		switch {
		case t.host == itself:
			names[i] = service
		case i > 0 && t.host == targets[i-1].host:
			names[i] = names[i-1]
		default:
			names[i] = b.hosts.writeName(&all, b.hosts.places[t.host], service)
		}
	}
	return names
}

// writeName writes a host's full name, unless it is too long.
func (h *hosts) writeName(all *strings.Builder, p place, service string) string {
	if h.nameLen(p)+1+len(service) > maxName {
		return ""
	}
	from := all.Len()
	all.WriteString(h.endpoint(p).Hostname)
	all.WriteByte('.')
	all.WriteString(h.slices[p.slice].Cluster)
	all.WriteByte('.')
	all.WriteString(service)
	return all.String()[from:]
}
