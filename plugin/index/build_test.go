package index

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// history makes random edits over few names, so that they meet often. It keeps what the state should hold.
type history struct {
	*rand.Rand
	state    *State
	services map[Key]Service
	slices   map[SliceID]Slice
}

func newHistory(seed, run uint64) history {
	return history{rand.New(rand.NewPCG(seed, run)), NewState(), map[Key]Service{}, map[SliceID]Slice{}}
}

func (h history) key() Key { return NewKey(fmt.Sprint("ns", h.IntN(3)), fmt.Sprint("s", h.IntN(4))) }

func (h history) addr() netip.Addr {
	if h.IntN(4) == 0 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(h.IntN(5))})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(h.IntN(5))})
}

func (h history) ports() (ports []Port) {
	for range h.IntN(3) {
		ports = append(ports, Port{fmt.Sprint("p", h.IntN(3)), []string{"tcp", "udp"}[h.IntN(2)], uint16(1 + h.IntN(3))})
	}
	return ports
}

func (h history) service() Service {
	s := Service{Key: h.key(), Type: Type(h.IntN(2)), Ports: h.ports(), Managed: h.IntN(2) == 0}
	for range h.IntN(3) {
		s.IPs = append(s.IPs, h.addr())
	}
	return s
}

func (h history) slice() Slice {
	key := h.key()
	s := Slice{SliceID: SliceID{key.Namespace(), fmt.Sprint("e", h.IntN(5))}, Service: key.Name(), Ports: h.ports()}
	s.Cluster, s.Managed = []string{"", "c1", "c2", "c2.example"}[h.IntN(4)], h.IntN(2) == 0
	for range h.IntN(4) {
		s.Endpoints = append(s.Endpoints, Endpoint{[]string{"", "h1", "h2"}[h.IntN(3)], h.addr()})
	}
	return s
}

func (h history) edit() {
	switch h.IntN(6) {
	case 0, 1:
		service := h.service()
		h.services[service.Key] = service
		h.state.SetService(service.Entry())
	case 2:
		key := h.key()
		delete(h.services, key)
		h.state.DeleteService(key)
	case 3, 4:
		slice := h.slice()
		h.slices[slice.SliceID] = slice
		h.state.SetSlice(slice)
	case 5:
		id := h.slice().SliceID
		delete(h.slices, id)
		h.state.DeleteSlice(id)
	}
}

// rebuilt is an index made at once from the objects that there are in the end.
func (h history) rebuilt() *Index {
	end := NewState()
	for _, service := range h.services {
		end.SetService(service.Entry())
	}
	for _, slice := range h.slices {
		end.SetSlice(slice)
	}
	return New(0).With(end.Drain(), 1)
}

func allTargets(b *block, n node) (all []target) {
	var w walk
	w.start(b, &n, false, math.MaxInt)
	for t, ok := w.step(); ok; t, ok = w.step() {
		all = append(all, t)
	}
	slices.SortFunc(all, target.compare)
	return all
}

func addressesOf(h *hosts, host []place) (all []netip.Addr) {
	for _, p := range host {
		all = append(all, h.endpoint(p).Addr)
	}
	return all
}

// contents is all that an index answers from, without its serial: also which groups the targets come from, as the serial may grow with them.
func contents(x *Index) map[string]string {
	all := map[string]string{}
	x.services.all(func(b *block) {
		key := b.key
		all[fmt.Sprint(key)] = fmt.Sprint(b.addrs(), allTargets(b, node{own: true}))
		for rest := b.ports.list; len(rest) > 0; {
			ports := b.portsNamed(rest[0].name, rest[0].protocol)
			all[rest[0].name+"/"+rest[0].protocol+fmt.Sprint(key)] = fmt.Sprint(allTargets(b, node{ports: ports}))
			rest = rest[len(ports):]
		}
		for host := range b.hosts.all() {
			all[b.hosts.name(host[0])+fmt.Sprint(key)] = fmt.Sprint(addressesOf(b.hosts, host))
		}
		if b.hosts != nil {
			all["parents"+fmt.Sprint(key)] = fmt.Sprint(b.hosts.parents, b.hosts.groups, b.ports.list)
		}
	})
	x.namespaces.all(func(n *namespace) { all[n.name] = fmt.Sprint(n.services) })
	return all
}

func TestAnyHistoryEndsInTheIndexOfItsEndState(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for run := range uint64(150) {
		h := newHistory(seed, run)
		x := New(0)
		for range 60 {
			for range 1 + h.IntN(3) {
				h.edit()
			}
			before := contents(x)
			next := x.With(h.state.Drain(), 0)
			check(t, next)
			if same := cmp.Equal(before, contents(next)); same != (next == x) || same != (next.Serial() == x.Serial()) {
				t.Fatalf("run %d: the index changed: %v, but the serial went from %d to %d", run, !same, x.Serial(), next.Serial())
			}
			if diff := cmp.Diff(before, contents(x)); diff != "" {
				t.Fatalf("run %d: an update changed the index it came from:\n%s", run, diff)
			}
			x = next
		}
		if diff := cmp.Diff(contents(h.rebuilt()), contents(x)); diff != "" {
			t.Fatalf("run %d: the updates and a rebuild differ (-rebuild +updates):\n%s", run, diff)
		}
		if want, got := h.rebuilt().services.n, x.services.n; want != got {
			t.Fatalf("run %d: %d services counted, want %d", run, got, want)
		}
		if t.Failed() {
			return
		}
	}
}

// A new list of one namespace says nothing of the others.
func TestAListOfOneNamespaceReplacesThatOneOnly(t *testing.T) {
	s := NewState()
	for _, ns := range []string{"a", "b"} {
		for _, name := range []string{"stays", "goes"} {
			s.SetService(Service{Key: NewKey(ns, name), Type: Headless}.Entry())
			s.SetSlice(Slice{SliceID: SliceID{ns, name}, Service: name, Endpoints: []Endpoint{{"", ips("10.0.0.1")[0]}}})
		}
	}
	s.ReplaceServices("a", []Entry{Service{Key: NewKey("a", "stays"), Type: Headless}.Entry()})
	s.ReplaceSlices("a", []Slice{{SliceID: SliceID{"a", "stays"}, Service: "stays", Endpoints: []Endpoint{{"", ips("10.0.0.1")[0]}}}})
	if s.Services() != 3 || s.Endpoints() != 3 {
		t.Errorf("%d services and %d endpoints are left, want 3 of each", s.Services(), s.Endpoints())
	}
	x := New(0).With(s.Drain(), 1)
	check(t, x)
	for name, want := range map[string]Result{"stays.a": Success, "goes.a": NameError, "stays.b": Success, "goes.b": Success} {
		if got := x.whole(testZone, name+".svc.clusterset.local.", dns.TypeA).Result; got != want {
			t.Errorf("%s: result %d, want %d", name, got, want)
		}
	}
	s.ReplaceServices("", nil)
	s.ReplaceSlices("", nil)
	if s.Services() != 0 || s.Endpoints() != 0 {
		t.Errorf("%d services and %d endpoints are left of nothing", s.Services(), s.Endpoints())
	}
}

func TestSerialMovesOnlyWithAnAnswer(t *testing.T) {
	s := NewState()
	service := Service{Key: NewKey("a", "b"), IPs: ips("10.0.0.1", "10.0.0.2")}
	s.SetService(service.Entry())
	x := New(100).With(s.Drain(), 200)
	if x.Serial() != 200 {
		t.Fatalf("serial %d, want the given one", x.Serial())
	}
	step := func(what string, want uint32) {
		t.Helper()
		x = x.With(s.Drain(), 150)
		if x.Serial() != want {
			t.Errorf("after %s the serial is %d, want %d", what, x.Serial(), want)
		}
	}
	s.SetService(service.Entry())
	step("the same object again", 200)
	service.IPs = ips("10.0.0.2", "10.0.0.1")
	s.SetService(service.Entry())
	step("its IPs in another order", 200)
	s.SetSlice(Slice{SliceID: SliceID{"a", "s"}, Service: "b", Cluster: "c", Endpoints: []Endpoint{{"", ips("10.9.9.9")[0]}}})
	step("a slice of a ClusterSetIP import", 200)
	service.IPs = ips("10.0.0.3")
	s.SetService(service.Entry())
	step("another IP", 201)
	s.DeleteService(service.Key)
	step("its end", 202)
}

func TestTheSerialWrapsAround(t *testing.T) { // RFC 1982
	s := NewState()
	s.SetService(Service{Key: NewKey("a", "b")}.Entry())
	if got := New(1<<32-10).With(s.Drain(), 5).Serial(); got != 5 {
		t.Errorf("serial %d after 2^32-10, want the given 5, which is 15 more", got)
	}
}

// Services with the same ports share them, and what no service has any more is garbage.
func TestPortsAreShared(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := newHistory(seed, 0)
	for range 2000 {
		h.edit()
		users := map[uint64]*portSet{}
		h.state.services.all(func(b *block) {
			if first, found := users[b.ports.hash()]; found && first != b.ports {
				t.Fatalf("two copies of %v", b.ports)
			}
			users[b.ports.hash()] = b.ports
		})
	}
	s := NewState()
	of := func(number int) Entry {
		return Service{Key: NewKey("a", "b"), Ports: []Port{{"http", "tcp", uint16(number)}}}.Entry()
	}
	for number := 1; number < 60_000; number++ {
		s.SetService(of(number))
		if number%1000 == 0 {
			runtime.GC()
		}
	}
	if n := len(s.ports.sets); n > 10_000 {
		t.Errorf("%d sets of ports are remembered of one service, which has had 60000", n)
	}
}

// One hash for two sets does not mix them up.
func TestPortsWithOneHashAreNotShared(t *testing.T) {
	s := NewState().ports
	http, dns := newPortSet([]Port{{"http", "tcp", 80}}), newPortSet([]Port{{"dns", "udp", 53}})
	s.sets[dns.hash()] = weak.Make(http)
	if got := s.share(dns); got != dns {
		t.Errorf("%v in place of %v", got, dns)
	}
	runtime.KeepAlive(http)
}

// A table has the entries that a map has, and a table that came from it keeps its own.
func TestTableIsAMap(t *testing.T) {
	shared, own, want := newTable[string, *namespace](), newTable[string, *namespace](), map[string]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		change := map[string]*namespace{}
		for range 50 {
			name := fmt.Sprint(r.IntN(4000))
			change[name] = nil
			delete(want, name)
			if n := r.IntN(4); n > 0 {
				change[name] = &namespace{name, n}
				want[name] = n
			}
		}
		for name, n := range change {
			own.set(name, n)
		}
		before := shared
		shared = shared.with(change)
		for _, all := range []table[string, *namespace]{shared, own} {
			got := map[string]int{}
			all.all(func(n *namespace) { got[n.name] = n.services })
			if !maps.Equal(got, want) || !all.check() || all.n != len(want) {
				t.Fatalf("%d entries of %d, or not in their places", all.n, len(want))
			}
		}
		if !before.check() {
			t.Fatal("the table that it came from has changed")
		}
	}
}
