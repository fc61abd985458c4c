package index

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/miekg/dns"
)

// What `make bench-server` measures of whole servers has the strings of real objects too; this is what a change here could spoil.
const (
	mostBytesPerImport   = 130
	mostBytesPerEndpoint = 95
)

// held is how many bytes of the heap hold what f returns.
func held(f func() (*State, *Index)) uint64 {
	before := heap()
	state, x := f()
	after := heap()
	runtime.KeepAlive(state)
	runtime.KeepAlive(x)
	return after - before
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one found dead, and finalizers held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestHeapOfAnImport(t *testing.T) {
	const n = 20_000
	got := held(func() (*State, *Index) {
		s := NewState()
		return s, crowd(s, n, 0)
	}) / n
	if got > mostBytesPerImport {
		t.Errorf("%d bytes for each import, want at most %d", got, mostBytesPerImport)
	}
}

func TestHeapOfAnEndpoint(t *testing.T) {
	const services, endpoints = 200, 500
	got := held(func() (*State, *Index) {
		s := NewState()
		for i := range services {
			setHeadless(s, fmt.Sprint("db-", i), endpoints)
		}
		return s, New(0).With(s.Drain(), 1)
	}) / services / endpoints
	if got > mostBytesPerEndpoint {
		t.Errorf("%d bytes for each endpoint, want at most %d", got, mostBytesPerEndpoint)
	}
}

// setHeadless adds a headless service, in slices of 100 endpoints as Kubernetes writes them.
func setHeadless(s *State, name string, endpoints int) {
	s.SetService(Service{Key: NewKey("data", name), Type: Headless}.Entry())
	for from := 0; from < endpoints; from += 100 {
		slice := Slice{SliceID: SliceID{"data", fmt.Sprint(name, from)}, Service: name, Cluster: "c1", Ports: []Port{{"pg", "tcp", 5432}}}
		slice.Endpoints = make([]Endpoint, 0, 100)
		for i := from; i < from+100; i++ {
			slice.Endpoints = append(slice.Endpoints, Endpoint{fmt.Sprint("db-", i), netip.AddrFrom4([4]byte{11, byte(len(s.slices)), byte(i >> 8), byte(i)})})
		}
		s.SetSlice(slice)
	}
}

// A query allocates what its reply needs, and nothing else: one array of records and one of pointers for each section, both in one
// allocation for a single record.
func TestAllocations(t *testing.T) {
	x := crowd(NewState(), 1000, 100)
	for question, want := range map[string]float64{
		"svc7.ns7.svc.clusterset.local. A":              1,
		"db.data.svc.clusterset.local. A":               2,
		"db-7.c1.db.data.svc.clusterset.local. A":       1,
		"none.ns7.svc.clusterset.local. A":              2, // the SOA record with its list, and its two names
		"_http._tcp.svc7.ns7.svc.clusterset.local. SRV": 4, // and the targets' names
		"_pg._tcp.db.data.svc.clusterset.local. SRV":    6,
	} {
		name, qtype := cutQuestion(question)
		if got := testing.AllocsPerRun(100, func() { x.whole(testZone, name, qtype) }); got > want {
			t.Errorf("%s: %v allocations, want at most %v", question, got, want)
		}
	}
}

func cutQuestion(text string) (name string, qtype uint16) {
	var of string
	_, _ = fmt.Sscan(text, &name, &of)
	return name, dns.StringToType[of]
}
