package multicluster

import (
	"errors"

	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

var errUnsynced = errors.New("not yet in step with the API server, so the zone is not known")

// Transfer implements transfer.Transferer, for the transfer plugin: AXFR (serial 0), or IXFR from a serial. There is no record of
// single changes, so an IXFR gets the whole zone, or nothing but the SOA record where the secondary is up to date (RFC 1995 2, 4).
// All of it comes from one Index: what changes meanwhile is in the next transfer. The zones of `alias` are not ours to hand out.
func (m *Multicluster) Transfer(name string, serial uint32) (<-chan []dns.RR, error) {
	zone := m.zone(name)
	if zone == nil || zone.Name != name || zone.Alias {
		return nil, transfer.ErrNotAuthoritative
	}
	v := m.watch.View()
	if v == nil || !v.Whole() {
		return nil, errUnsynced
	}
	records := make(chan []dns.RR)
	go func() { // the receiver takes all, also after its client is gone
		defer close(records)
		send(v.Index, zone, serial, records)
	}()
	return records, nil
}

func send(x *index.Index, zone *index.Zone, serial uint32, to chan<- []dns.RR) {
	for part := range x.Transfer(zone) {
		if serial != 0 && x.IsCurrent(serial) {
			to <- part[:1]
			return
		}
		to <- part
	}
}
