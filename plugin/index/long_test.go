package index

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// manyAddresses is an index of one headless service, with n addresses of each family.
func manyAddresses(t *testing.T, n int) *Index {
	t.Helper()
	slice := Slice{SliceID: SliceID{"data", "db"}, Service: "db", Cluster: "c"}
	for i := range n {
		v4 := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
		slice.Endpoints = append(slice.Endpoints, Endpoint{"", v4}, Endpoint{"", netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i)})})
	}
	return build(t, []Service{{Key: NewKey("data", "db"), Type: Headless}}, slice)
}

// The records of a long answer are those of this question, whatever the case and zone of the question before, and nobody else's.
func TestLongAnswers(t *testing.T) {
	other := &Zone{Name: "example.org.", TTL: 60}
	for _, n := range []int{1, 2, 100} {
		x := manyAddresses(t, n)
		for _, q := range []struct {
			zone *Zone
			name string
		}{
			{testZone, "db.data.svc.clusterset.local."}, {testZone, "DB.data.svc.clusterset.local."}, {testZone, "db.data.svc.clusterset.local."},
			{other, "db.data.svc.example.org."}, {testZone, "db.data.svc.clusterset.local."}, {&Zone{Name: testZone.Name, TTL: 9}, "db.data.svc.clusterset.local."},
		} {
			for _, qtype := range []string{"A", "AAAA"} {
				if diff := cmp.Diff(wantLong(n, q.name, q.zone.TTL, qtype), ask(x, q.zone, q.name+" "+qtype)); diff != "" {
					t.Errorf("%s %s of %d addresses (-want +got):\n%s", q.name, qtype, n, diff)
				}
			}
		}
		check(t, x)
	}
}

func wantLong(n int, name string, ttl uint32, qtype string) []string {
	lines := []string{"Success"}
	for i := range n {
		ip := fmt.Sprintf("10.0.0.%d", i)
		if qtype == "AAAA" {
			ip = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i)}).String()
		}
		lines = append(lines, fmt.Sprintf("answer %s %d IN %s %s", name, ttl, qtype, ip))
	}
	return sortedLines(lines)
}
