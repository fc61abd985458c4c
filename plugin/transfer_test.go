package multicluster

import (
	"errors"
	"testing"

	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

var _ transfer.Transferer = (*Multicluster)(nil)

func transferred(t *testing.T, m *Multicluster, serial uint32) (all []dns.RR) {
	t.Helper()
	records, err := m.Transfer("clusterset.local.", serial)
	if err != nil {
		t.Fatal(err)
	}
	for part := range records {
		all = append(all, part...)
	}
	return all
}

func TestTransfer(t *testing.T) {
	m := handler(oneImport(), fall.Zero) // whose serial is 1
	whole := transferred(t, m, 0)
	for _, rr := range []dns.RR{whole[0], whole[len(whole)-1]} {
		if soa, ok := rr.(*dns.SOA); !ok || soa.Serial != 1 {
			t.Errorf("the transfer begins or ends with %s", rr)
		}
	}
	if got := transferred(t, m, 0xfffffff0); len(got) != len(whole) {
		t.Errorf("an IXFR from an older serial has %d records, want all %d", len(got), len(whole))
	}
	for _, serial := range []uint32{1, 2} {
		if got := transferred(t, m, serial); len(got) != 1 || got[0].Header().Rrtype != dns.TypeSOA {
			t.Errorf("an IXFR from serial %d has %v, want the SOA record alone", serial, got)
		}
	}
}

// Serials from 2^31 on are larger than 0, and still an AXFR is one.
func TestTransferOfALargeSerial(t *testing.T) {
	m := handler(index.New(1<<31+5), fall.Zero)
	if got := transferred(t, m, 0); len(got) < 3 {
		t.Errorf("an AXFR has %v", got)
	}
	if got := transferred(t, m, 1<<31+5); len(got) != 1 {
		t.Errorf("an IXFR from the same serial has %v", got)
	}
}

func TestTransferOfForeignZones(t *testing.T) {
	for _, zone := range []string{"example.org.", "svc.clusterset.local.", "cluster.local."} {
		if _, err := handler(oneImport(), fall.Zero).Transfer(zone, 0); !errors.Is(err, transfer.ErrNotAuthoritative) {
			t.Errorf("%s: %v", zone, err)
		}
	}
	// An empty zone would make a secondary forget all that it knows.
	if _, err := handler(nil, fall.Zero).Transfer("clusterset.local.", 0); err == nil || errors.Is(err, transfer.ErrNotAuthoritative) {
		t.Errorf("before the first sync: %v, want an error of its own", err)
	}
}
