package multicluster

import (
	"errors"

	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"
)

var errUnsynced = errors.New("not synced with the API server yet, so the zone is unknown")

// Transfer implements transfer.Transferer for the transfer plugin: AXFR (serial 0), or IXFR from a
// serial. Single changes are not recorded, so an IXFR gets the whole zone, or only the SOA record
// if the secondary is up to date (RFC 1995 2, 4). All of it comes from one Index; later changes are
// in the next transfer. The zones of `alias` belong to another plugin and are not transferred.
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
	go func() { // the receiver reads all parts, also after its client has gone
		defer close(records)
		for part := range v.Index.Transfer(zone) {
			if serial != 0 && v.Index.IsCurrent(serial) {
				records <- part[:1]
				return
			}
			records <- part
		}
	}()
	return records, nil
}
