package index

import "github.com/miekg/dns"

// The records of an answer are made for that answer only: a plugin that changes them changes no
// other client's answer. They come from one array for each section, so that fifty records need no
// more allocations than one.

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

// addressRecords is space for the A and AAAA records of one section.
type addressRecords struct {
	a    []recordA
	aaaa []recordAAAA
	rrs  []dns.RR
}

// newRecords returns space for so many records. Most answers have one IPv4 address: one allocation is
// enough for its record and the section.
func newRecords(v4, v6 int) addressRecords {
	if v4 == 1 && v6 == 0 {
		one := new(struct {
			a   [1]recordA
			rrs [1]dns.RR
		})
		return addressRecords{a: one.a[:0], rrs: one.rrs[:0]}
	}
	return addressRecords{exactly[recordA](v4), exactly[recordAAAA](v6), exactly[dns.RR](v4 + v6)}
}

// add4 and add6 write one record. There must be space for it: a record must not move once a pointer
// to it exists.
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

// recordsOf returns the A and AAAA records of one name.
func recordsOf(name string, ttl uint32, a addrs) []dns.RR {
	r := newRecords(len(a.v4), len(a.v6))
	r.addAll(name, ttl, a)
	return r.rrs
}

// records returns the A and AAAA records of the endpoints of one host.
func (h *hosts) records(name string, ttl uint32, v4, v6 []place) []dns.RR {
	r := newRecords(len(v4), len(v6))
	h.addAll(&r, name, ttl, v4, v6)
	return r.rrs
}

func (h *hosts) addAll(to *addressRecords, name string, ttl uint32, v4, v6 []place) {
	for _, p := range v4 {
		to.add4(name, ttl, h.endpoint(p).Addr.As4())
	}
	for _, p := range v6 {
		to.add6(name, ttl, h.endpoint(p).Addr.As16())
	}
}
