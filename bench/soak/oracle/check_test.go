package oracle

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const second = time.Second

// put writes a state in a tenth of a second.
func put(o *Object, at time.Duration, s State) {
	o.Begin(s, at)
	o.End(at + second/10)
}

func newVIP() (*VIP, *Fence) {
	f := &Fence{}
	return &VIP{Object: NewObject(f), Name: "foo.ns.svc." + Zone}, f
}

// message is a reply with records in the form of a zone file: those of the name that was asked for in front, glue by its own name. Its
// serial is there if there is no record.
func message(t *testing.T, q Question, rcode int, records ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(q.Name, q.Type)
	m.Response, m.Authoritative, m.Rcode = true, true, rcode
	for _, text := range records {
		rr, err := dns.NewRR(strings.Replace(text, "@", q.Name, 1))
		if err != nil {
			t.Fatal(err)
		}
		if rr.Header().Name == q.Name && rr.Header().Rrtype == q.Type {
			m.Answer = append(m.Answer, rr)
		} else {
			m.Extra = append(m.Extra, rr)
		}
	}
	if len(records) == 0 && (rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError) {
		m.Ns = append(m.Ns, &dns.SOA{Hdr: dns.RR_Header{Name: Zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Serial: 7})
	}
	return m
}

func kindOf(wrong *Wrong) Kind {
	if wrong == nil {
		return ""
	}
	return wrong.Kind
}

const nxdomain = dns.RcodeNameError

// wants asks a question and gives its answer, by a Checker of their own. What it shows does not bind the next question.
func wants(t *testing.T, want Kind, q Question, asked, replied time.Duration, rcode int, records ...string) {
	t.Helper()
	checker := &Checker{}
	_, err := checker.Answered(checker.Ask(q, asked), message(t, q, rcode, records...), replied)
	if got := kindOf(err); got != want {
		t.Errorf("%q, want %q: %v", got, want, err)
	}
	for _, o := range q.about.objects() {
		o.oldest = 0
	}
}

// address is an A record of the name that was asked for.
func address(ip netip.Addr) string { return "@ 5 IN A " + ip.String() }

func TestAnswersOfAnImport(t *testing.T) {
	v, fence := newVIP()
	put(v.Object, 1*second, State{Number: 1, Size: 1})
	put(v.Object, 2*second, State{Number: 2, Size: 1})
	put(v.Object, 3*second, State{Number: 3, Size: 0})
	put(v.Object, 4*second, State{Gone: true})
	put(v.Object, 5*second, State{Number: 5, Size: 1})
	v.Begin(State{Number: 6, Size: 1}, 6*second) // and it is unknown whether it is done
	fence.Pass(2500 * time.Millisecond)

	for _, c := range []struct {
		name    string
		replied time.Duration // to a question that was asked half a second before
		rcode   int
		ips     []netip.Addr
		want    Kind
	}{
		{"the state since the last fence", 2900 * time.Millisecond, 0, []netip.Addr{IPv4(2)}, ""},
		{"the state before that one", 2900 * time.Millisecond, 0, []netip.Addr{IPv4(1)}, Stale},
		{"no such name, before the fence", 2900 * time.Millisecond, nxdomain, nil, Empty},
		{"a state that is yet to come", 2900 * time.Millisecond, 0, []netip.Addr{IPv4(5)}, Stale},
		{"no address yet", 2900 * time.Millisecond, 0, nil, Empty},
		{"no address, while that is being written", 3050 * time.Millisecond, 0, nil, ""},
		{"no address, and this is not confirmed", 6 * second, 0, nil, ""},
		{"no such name, before it was deleted", 3900 * time.Millisecond, nxdomain, nil, Empty},
		{"no such name, while it is being deleted", 4050 * time.Millisecond, nxdomain, nil, ""},
		{"a state that is not confirmed", 7 * second, 0, []netip.Addr{IPv4(6)}, ""},
		{"what is known to be done, beside that", 7 * second, 0, []netip.Addr{IPv4(5)}, ""},
		{"a state that never was", 7 * second, 0, []netip.Addr{IPv4(4)}, Torn},
		{"two states at once", 7 * second, 0, []netip.Addr{IPv4(5), IPv4(6)}, Torn},
		{"an address twice", 7 * second, 0, []netip.Addr{IPv4(5), IPv4(5)}, Torn},
		{"a failure", 7 * second, dns.RcodeServerFailure, nil, Failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records []string
			for _, ip := range c.ips {
				records = append(records, address(ip))
			}
			wants(t, c.want, v.Ask(dns.TypeA), c.replied-second/2, c.replied, c.rcode, records...)
		})
	}
}

func TestAnswersDoNotGoBack(t *testing.T) {
	v, _ := newVIP()
	put(v.Object, 1*second, State{Number: 1, Size: 1})
	put(v.Object, 2*second, State{Number: 2, Size: 1})
	q, checker := v.Ask(dns.TypeA), &Checker{}
	answer := func(asked Asked, number uint32) Kind {
		_, err := checker.Answered(asked, message(t, q, 0, address(IPv4(number))), 5*second)
		return kindOf(err)
	}
	early, also := checker.Ask(q, 3*second), checker.Ask(q, 3*second)
	if got := answer(early, 2); got != "" {
		t.Errorf("the newest state: %q", got)
	}
	if got := answer(also, 1); got != "" {
		t.Errorf("the state before, to a question that was asked before the newest was answered: %q", got)
	}
	if got := answer(checker.Ask(q, 4*second), 1); got != Stale {
		t.Errorf("the state before, to a question that was asked after: %q", got)
	}
}

func TestPortsOfAnImport(t *testing.T) {
	v, _ := newVIP()
	v.Dual = true
	put(v.Object, second, State{Number: 1, Size: 1})
	put(v.Object, 2*second, State{Number: 2, Size: 1})
	srv := func(number uint32, port int) string {
		return fmt.Sprintf("@ 5 IN SRV 0 50 %d %s", Port(number, port), v.Name)
	}
	glue := func(number uint32) []string {
		return []string{v.Name + " 5 IN A " + IPv4(number).String(), v.Name + " 5 IN AAAA " + IPv6(number).String()}
	}
	for _, c := range []struct {
		name    string
		port    int
		records []string
		want    Kind
	}{
		{"one port", 1, append(glue(2), srv(2, 1)), ""},
		{"all ports", All, append(glue(1), srv(1, 1), srv(1, 0)), ""},
		{"the other port", 1, append(glue(2), srv(2, 0)), Torn},
		{"a port too few", All, append(glue(1), srv(1, 0)), Torn},
		{"ports of two states", All, append(glue(1), srv(1, 0), srv(2, 1)), Torn},
		{"addresses of another state", 0, append(glue(1), srv(2, 0)), Torn},
		{"an address too few", 0, append(glue(2)[:1], srv(2, 0)), Torn},
		{"addresses of no state", 0, append(glue(2), srv(2, 0), "who.ns.svc.clusterset.local. 5 IN A 10.0.0.1"), Malformed},
	} {
		t.Run(c.name, func(t *testing.T) { wants(t, c.want, v.AskPort(c.port), 3*second, 4*second, 0, c.records...) })
	}
}

func endpoints(number uint32, ordinals ...int) (records []string) {
	for _, ordinal := range ordinals {
		records = append(records, address(Endpoint(number, ordinal)))
	}
	return records
}

func pods(h *Headless, number uint32, port int, ordinals ...int) (records []string) {
	for _, ordinal := range ordinals {
		host := h.hostName(0, ordinal)
		records = append(records, fmt.Sprintf("@ 5 IN SRV 0 50 %d %s", Port(number, port), host))
		if port == 0 {
			records = append(records, host+" 5 IN A "+Endpoint(number, ordinal).String())
		}
	}
	return records
}

// East has two endpoints since 1 s, by the number 2, and three since 3 s, by 4. West has one since 2 s, by 3, and is gone since 3 s.
func TestAnswersOfAHeadlessImport(t *testing.T) {
	const early, late = 2500 * time.Millisecond, 4 * second // fences of the slices
	imports, slice := &Fence{}, &Fence{}
	h := &Headless{Import: NewObject(imports), Slices: []*Object{NewObject(slice), NewObject(slice)}, Name: "db.ns.svc." + Zone}
	put(h.Import, 0, State{Number: 1})
	put(h.Slices[0], second, State{Number: 2, Size: 2})
	put(h.Slices[1], 2*second, State{Number: 3, Size: 1})
	put(h.Slices[0], 3*second, State{Number: 4, Size: 3})
	put(h.Slices[1], 3*second, State{Gone: true})
	all := h.Ask(dns.TypeA)
	for _, c := range []struct {
		name           string
		q              Question
		imports, slice time.Duration // of the fences
		rcode          int
		records        []string
		want           Kind
	}{
		{"both slices", all, second, early, 0, slices.Concat(endpoints(2, 0, 1), endpoints(3, 0)), ""},
		{"one slice, new", all, second, early, 0, slices.Concat(endpoints(4, 2, 0, 1), endpoints(3, 0)), ""},
		{"both slices, new", all, second, late, 0, endpoints(4, 0, 1, 2), ""},
		{"before the slices", all, second, 0, nxdomain, nil, ""},
		{"one slice, before there was another", all, second, 0, 0, endpoints(2, 0, 1), ""},
		{"one slice, as before the other one, which is known to be there", all, second, early, 0, endpoints(3, 0), Torn},
		{"a slice that is known to be gone", all, second, late, 0, slices.Concat(endpoints(4, 0, 1, 2), endpoints(3, 0)), Stale},
		{"an endpoint too few", all, second, late, 0, endpoints(4, 0, 2), Torn},
		{"an endpoint too many", all, second, late, 0, endpoints(4, 0, 1, 2, 3), Torn},
		{"an endpoint twice", all, second, late, 0, endpoints(4, 0, 1, 1), Torn},
		{"two states of one slice", all, second, early, 0, slices.Concat(endpoints(2, 0), endpoints(4, 1, 2), endpoints(3, 0)), Torn},
		{"no endpoint, though there are", all, second, late, nxdomain, nil, Empty},
		{"no address at all", all, second, late, 0, nil, Empty},
		{"no IPv6", h.Ask(dns.TypeAAAA), second, late, 0, nil, ""},
		{"no such name for IPv6", h.Ask(dns.TypeAAAA), second, late, nxdomain, nil, Empty},
		{"a host", h.AskHost(0, 2), second, late, 0, endpoints(4, 2), ""},
		{"another host", h.AskHost(0, 2), second, late, 0, endpoints(4, 1), Torn},
		{"a host that is to come", h.AskHost(0, 2), second, early, nxdomain, nil, ""},
		{"a host that is there", h.AskHost(0, 1), second, early, nxdomain, nil, Empty},
		{"a host of a slice that is gone", h.AskHost(1, 0), second, late, nxdomain, nil, ""},
		{"a port", h.AskPort(0), second, late, 0, pods(h, 4, 0, 0, 1, 2), ""},
		{"all ports", h.AskPort(All), second, late, 0, slices.Concat(pods(h, 4, 0, 0, 1, 2), pods(h, 4, 1, 2, 1, 0)), ""},
		{"a port of one too few", h.AskPort(All), second, late, 0, slices.Concat(pods(h, 4, 0, 0, 1, 2), pods(h, 4, 1, 2, 1)), Torn},
		{"no import, before it was there", all, 0, late, nxdomain, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			imports.passed.Store(int64(c.imports))
			slice.passed.Store(int64(c.slice))
			wants(t, c.want, c.q, 5*second, 5*second, c.rcode, c.records...)
		})
	}
}

func TestNamesThatNeverExist(t *testing.T) {
	for rcode, want := range map[int]Kind{nxdomain: "", dns.RcodeSuccess: Empty, dns.RcodeRefused: Failure} {
		wants(t, want, AskNothing("nobody.ns.svc."+Zone, dns.TypeA), second, second, rcode)
	}
}

func TestTheSerialDoesNotGoBack(t *testing.T) {
	q, checker := AskZone(), &Checker{}
	answer := func(asked Asked, serial uint32) Kind {
		_, err := checker.Answered(asked, message(t, q, 0, fmt.Sprintf("@ 5 IN SOA a. b. %d 1 1 1 1", serial)), second)
		return kindOf(err)
	}
	early := checker.Ask(q, 0)
	for _, serial := range []uint32{1<<32 - 2, 1<<32 - 2, 1<<32 - 1, 3} { // over the end of 32 bits
		if got := answer(checker.Ask(q, 0), serial); got != "" {
			t.Errorf("%d: %q", serial, got)
		}
	}
	if got := answer(early, 1<<32-1); got != "" {
		t.Errorf("a former serial, to a question that was asked before: %q", got)
	}
	if got := answer(checker.Ask(q, 0), 2); got != Backwards {
		t.Errorf("a former serial: %q, want %q", got, Backwards)
	}
}

func TestRepliesOfAWrongForm(t *testing.T) {
	v, _ := newVIP()
	put(v.Object, second, State{Number: 1, Size: 1})
	q := v.Ask(dns.TypeA)
	for name, spoil := range map[string]func(*dns.Msg){
		"to another question":      func(m *dns.Msg) { m.Question[0].Name = "bar." + Zone },
		"not authoritative":        func(m *dns.Msg) { m.Authoritative = false },
		"truncated":                func(m *dns.Msg) { m.Truncated = true },
		"a record of another name": func(m *dns.Msg) { m.Answer[0].Header().Name = "bar." + Zone },
		"an SOA beside an answer":  func(m *dns.Msg) { m.Ns = append(m.Ns, &dns.SOA{}) },
		"no SOA beside no answer":  func(m *dns.Msg) { m.Answer = nil },
		"glue without what it is to": func(m *dns.Msg) {
			m.Extra = append(m.Extra, &dns.A{Hdr: dns.RR_Header{Name: "bar."}, A: net.IPv4bcast})
		},
	} {
		t.Run(name, func(t *testing.T) {
			checker := &Checker{}
			m := message(t, q, 0, address(IPv4(1)))
			spoil(m)
			if _, err := checker.Answered(checker.Ask(q, 2*second), m, 2*second); kindOf(err) != Malformed {
				t.Errorf("%v, want %q", err, Malformed)
			}
		})
	}
}
