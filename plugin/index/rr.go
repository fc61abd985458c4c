package index

import (
	"strings"

	"github.com/miekg/dns"
)

// The records of an answer are made for that answer alone: nothing that a plugin after us does to them can reach another client.
// They come from one array for each section, so that fifty records cost no more allocations than one.

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

func newAddressRecords(v4, v6 int) *addressRecords {
	return &addressRecords{make([]recordA, 0, v4), make([]recordAAAA, 0, v6), make([]dns.RR, 0, v4+v6)}
}

// add writes the records of one name. There has to be room for them: a record must not move once it is pointed at.
func (r *addressRecords) add(name string, ttl uint32, a addrs) {
	for _, ip := range a.v4 {
		r.a = append(r.a, recordA{ip: ip})
		record := &r.a[len(r.a)-1]
		record.rr = dns.A{Hdr: header(name, dns.TypeA, ttl), A: record.ip[:]}
		r.rrs = append(r.rrs, &record.rr)
	}
	for _, ip := range a.v6 {
		r.aaaa = append(r.aaaa, recordAAAA{ip: ip})
		record := &r.aaaa[len(r.aaaa)-1]
		record.rr = dns.AAAA{Hdr: header(name, dns.TypeAAAA, ttl), AAAA: record.ip[:]}
		r.rrs = append(r.rrs, &record.rr)
	}
}

// recordsOf is the A and AAAA records of one name.
func recordsOf(name string, ttl uint32, a addrs) []dns.RR {
	r := newAddressRecords(len(a.v4), len(a.v6))
	r.add(name, ttl, a)
	return r.rrs
}

// recordsSRV writes the SRV records of targets and, for the additional section, the addresses of each target (RFC 2782; SPEC 2.3.2,
// 2.4.3). Targets are sorted by host. A target whose name would be too long for a message is left out: that name cannot be asked
// for either, and the others must still be sent.
func recordsSRV(owner, service string, ttl uint32, b *block, targets []target) (answer, glue []dns.RR) {
	names := targetNames(service, b, targets)
	records := make([]dns.SRV, len(targets))
	answer = make([]dns.RR, 0, len(targets))
	additional := roomForGlue(b, targets)
	weight := uint16(max(1, 100/max(1, len(targets)))) // equal shares, as CoreDNS' kubernetes plugin gives them
	for i, t := range targets {
		if names[i] == "" {
			continue
		}
		records[i] = dns.SRV{Hdr: header(owner, dns.TypeSRV, ttl), Weight: weight, Port: t.number, Target: names[i]}
		answer = append(answer, &records[i])
		if i == 0 || t.host != targets[i-1].host {
			additional.add(names[i], ttl, b.addrsOf(t))
		}
	}
	return answer, additional.rrs
}

func roomForGlue(b *block, targets []target) *addressRecords {
	v4, v6 := 0, 0
	for _, t := range targets {
		a := b.addrsOf(t)
		v4, v6 = v4+len(a.v4), v6+len(a.v6)
	}
	return newAddressRecords(v4, v6)
}

func (b *block) addrsOf(t target) addrs {
	if t.host == itself {
		return b.addrs
	}
	return b.hosts[t.host].addrs
}

// targetNames writes the names of all targets, "" for one too long, into one string.
func targetNames(service string, b *block, targets []target) []string {
	names := make([]string, len(targets))
	size := 0
	for _, t := range targets {
		if t.host != itself {
			size += len(b.hosts[t.host].name) + 1 + len(service)
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
		case len(b.hosts[t.host].name)+1+len(service) <= maxName:
			from := all.Len()
			all.WriteString(b.hosts[t.host].name)
			all.WriteByte('.')
			all.WriteString(service)
			names[i] = all.String()[from:]
		}
	}
	return names
}
