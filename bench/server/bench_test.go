package main

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

func TestAllNamesOfImportsAreOfOneLength(t *testing.T) {
	p := full
	length := len(p.importKey(0).dnsName())
	for _, i := range []int{p.imports.few - 1, p.imports.few, p.imports.some - 1, p.imports.some, p.imports.many - 1} {
		if name := p.importKey(i).dnsName(); len(name) != length {
			t.Errorf("%s is not of length %d", name, length)
		}
	}
	for _, q := range append(p.missing(), load.Question{Name: headlessKey(10, 0).dnsName()}) {
		if len(q.Name) != length {
			t.Fatalf("%s is not of length %d", q.Name, length)
		}
	}
}

func TestHeadlessServicesHaveSlicesOfHundreds(t *testing.T) {
	seen := map[string]bool{}
	for i := range 2 {
		objects := headlessOf(250)(i)
		if len(objects) != 4 {
			t.Fatalf("%d objects; want an import and three slices", len(objects))
		}
		for part, want := range []int{100, 100, 50} {
			s := objects[part+1].(*discoveryv1.EndpointSlice)
			if len(s.Endpoints) != want {
				t.Errorf("%s has %d endpoints; want %d", s.Name, len(s.Endpoints), want)
			}
			for _, e := range s.Endpoints {
				if seen[e.Addresses[0]] {
					t.Errorf("%s is twice", e.Addresses[0])
				}
				seen[e.Addresses[0]] = true
			}
		}
	}
}

func TestOutcomesThatCount(t *testing.T) {
	for _, c := range []struct {
		what  string
		o     load.Outcome
		who   table.Who
		rcode int
		valid bool
	}{
		{"as asked for", load.Outcome{Answered: 5000, Rcodes: map[string]int{"NOERROR": 5000}}, table.Ours, dns.RcodeSuccess, true},
		{"a few lost", load.Outcome{Answered: 5000, Lost: 5, Rcodes: map[string]int{"NOERROR": 5000}}, table.Ours, dns.RcodeSuccess, true},
		{"many lost", load.Outcome{Answered: 5000, Lost: 6, Rcodes: map[string]int{"NOERROR": 5000}}, table.Ours, dns.RcodeSuccess, false},
		{"another rcode", load.Outcome{Answered: 5000, Rcodes: map[string]int{"SERVFAIL": 5000}}, table.Ours, dns.RcodeSuccess, false},
		{"whoami has every name", load.Outcome{Answered: 5000, Rcodes: map[string]int{"NOERROR": 5000}}, table.Whoami, dns.RcodeNameError, true},
		{"no answer at all", load.Outcome{}, table.Ours, dns.RcodeSuccess, false},
	} {
		if err := valid(c.o, c.who, c.rcode); (err == nil) != c.valid {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestHeapProfile(t *testing.T) {
	heap, err := parseHeap("heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 1\n# HeapAlloc = 3670016\n# HeapSys = 2\n")
	if err != nil || heap != 3670016 {
		t.Errorf("%d, %v; want 3670016", heap, err)
	}
	if _, err := parseHeap("heap profile: "); err == nil {
		t.Error("a profile without statistics has a heap")
	}
}

func TestGoalsAreOfQuestionsThatAreAsked(t *testing.T) {
	titles := map[string]bool{}
	for _, q := range full.questions() {
		titles[q.title] = true
	}
	for title := range goals {
		if !titles[title] {
			t.Errorf("no query for %q", title)
		}
	}
}

func TestOnlyWhatWasMeasuredIsInTheTable(t *testing.T) {
	b := &bench{plan: full}
	b.samples.Add(cpuPerQuery, "A", table.Ours, 11)
	b.samples.Add(cpuPerQuery, "A", table.InTree, 22)
	var out strings.Builder
	if err := table.Write(&out, b.sections()); err != nil {
		t.Fatal(err)
	}
	const want = `      ours  in-tree  whoami  ready-made  goal  ours/in-tree    ours/whoami  ours/ready-made

CPU per query, µs, at 10 000 imports
  A  11.00    22.00                            0.50 ≤0.55 yes  ≤1.00 no

1 of 2 goals are reached.
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestTheMachinesNames(t *testing.T) {
	if got := processor("processor\t: 0\nmodel name\t: Some CPU @ 1GHz\nstepping\t: 7\n"); got != "Some CPU @ 1GHz" {
		t.Errorf("%q", got)
	}
	if got := release("CoreDNS-1.15.0\nlinux/amd64, go1.26.8, abc-dirty\n"); got != "CoreDNS 1.15.0, linux/amd64, go1.26.8" {
		t.Errorf("%q", got)
	}
	for n, want := range map[int]string{500: "500", 2000: "2000", 10_000: "10 000", 100_000: "100 000"} {
		if got := grouped(n); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
