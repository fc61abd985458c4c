package dns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// way is one of those to have imports on the search path.
type way struct {
	name     string
	corefile string // of the cluster's own server
	second   string // the example that a second server runs; "" if there is none
	searches string // of dnsConfig, beside a pod's own; NS stands for its namespace
	costs    []cost // as in lookups
}

// lookups are what a program asks for, in the order of the table.
var lookups = []struct {
	name  string
	local bool // there is a local Service foo too
}{
	{"foo.default.svc", false}, {"foo.default.svc", true},
	{"foo.default", false}, {"foo.default", true},
	{"foo", false}, {"foo", true},
	{"www.example.org", false},
}

// cost is what one lookup takes.
type cost struct {
	found   bool
	asked   int // names that are asked for, one after another
	onwards int // of these, how many go on to the second server
}

func found(asked int) cost       { return cost{true, asked, 0} }
func none(asked int) cost        { return cost{false, asked, 0} }
func onwards(n int, c cost) cost { c.onwards = n; return c }

var ways = []way{
	{
		name: "nothing, to compare with", corefile: stockAlone(),
		costs: []cost{none(4), found(3), none(4), found(2), none(4), found(1), found(4)},
	},
	{
		name: "dnsConfig, one entry", corefile: example("stock"), searches: "clusterset.local",
		costs: []cost{found(4), found(3), none(5), found(2), none(5), found(1), found(5)},
	},
	{
		name: "dnsConfig, three entries", corefile: example("stock"), searches: "NS.svc.clusterset.local svc.clusterset.local clusterset.local",
		costs: []cost{found(6), found(3), found(5), found(2), found(4), found(1), found(7)},
	},
	{
		name: "autopath", corefile: example("autopath"),
		costs: []cost{found(1), found(1), none(4), found(2), none(4), found(1), found(4)},
	},
	{
		name: "alias", corefile: example("alias"),
		costs: []cost{found(3), found(3), found(2), found(2), found(1), found(1), found(4)},
	},
	{
		name: "alias and autopath", corefile: edited(example("alias"), "    kubernetes cluster.local", "    autopath @multicluster\n    kubernetes cluster.local"),
		costs: []cost{found(1), found(1), found(2), found(2), found(1), found(1), found(4)},
	},
	{
		name: "second CoreDNS, dnsConfig", corefile: forwarding(), second: "second-server", searches: "clusterset.local",
		costs: []cost{onwards(1, found(4)), found(3), onwards(1, none(5)), found(2), onwards(1, none(5)), found(1), onwards(1, found(5))},
	},
	{
		name: "second CoreDNS, alias", corefile: example("alias-forwarding"), second: "alias-second-server",
		costs: []cost{onwards(3, found(3)), onwards(2, found(3)), onwards(2, found(2)), onwards(1, found(2)), onwards(1, found(1)), found(1), onwards(3, found(4))},
	},
}

// forwarding counts in both of its blocks, and has no cache for the second server's zone: what is counted is the first time that a
// name is asked for.
func forwarding() string {
	return stockAlone() + edited(example("forwarding"), "    cache 5\n", "    prometheus :9153\n")
}

// TestQuestions counts what reaches the server when glibc looks a name up in a pod, by each way to imports. It holds the table in
// docs/results/questions.txt, which `make questions` writes: it sets the variable QUESTIONS.
func TestQuestions(t *testing.T) {
	path := filepath.Join(binaries.Root(), "docs", "results", "questions.txt")
	inNetwork(t, func(w *world) {
		w.withKubeProxy()
		for i, way := range ways {
			w.run(way.name, func(w *world) { way.test(w, i > 0) })
		}
		if os.Getenv("QUESTIONS") != "" && !w.Failed() {
			write(w.T, path, table())
		}
		if read(w.T, path) != table() {
			w.Errorf("%s shows something else: run `make questions`. It should be\n%s", path, table())
		}
	})
}

func (way way) test(w *world, imports bool) {
	w.apply(endpoints(true))
	if way.second != "" {
		w.secondServer(withoutPorts(example(way.second)))
	}
	w.coreDNS(way.corefile)
	if imports {
		w.eventually(foo, func() error { return resolver.Differs("tcp", w.address, foo+" A", "NOERROR 10.0.0.77") })
	}
	counter := counter{first: w.door(), asked: w.questionsCounted()}
	if way.second != "" {
		counter.second = w.at(behind).door()
	}
	for i, lookup := range lookups {
		if !lookup.local {
			way.look(w, lookup.name, way.costs[i], "10.0.0.77", &counter)
		}
	}
	w.apply(aLocalFoo)
	defer w.remove(aLocalFoo)
	w.eventually(localFoo, func() error { return resolver.Differs("tcp", w.address, localFoo+" A", "NOERROR 10.96.0.101") })
	for i, lookup := range lookups {
		if lookup.local {
			way.look(w, lookup.name, way.costs[i], "10.96.0.101", &counter)
		}
	}
}

// look resolves a name in pods of the import's namespace and of another one, where `foo` alone is nothing.
func (way way) look(w *world, name string, want cost, address string, counter *counter) {
	w.Helper()
	if name == "www.example.org" {
		address = "192.0.2.1"
	}
	for _, namespace := range []string{"default", "example"} {
		w.searches(fmt.Sprintf("%[1]s.svc.cluster.local svc.cluster.local cluster.local %[2]s", namespace, strings.ReplaceAll(way.searches, "NS", namespace)))
		got := w.getent(name)
		asked, onwards := counter.count(w)
		if namespace != "default" && name == "foo" {
			want = cost{false, asked, onwards} // whatever it takes
		}
		if is := (cost{got == address, asked, onwards}); is != want || (!is.found && !strings.HasPrefix(got, "nothing")) {
			w.Errorf("%s in namespace %s is %s: %+v; want %+v", name, namespace, got, is, want)
		}
	}
}

// counter counts questions on their way into the servers, and holds the first one's own count against it.
type counter struct {
	first, second *door // second is nil where there is none
	asked         int   // before, by the first server's count
}

// count is how many names were asked for since the last call, and how many went on to the second server. Each is asked for twice at
// the same time, for both families: so it is one round trip.
func (c *counter) count(w *world) (asked, onwards int) {
	w.Helper()
	arrived := c.first.questions(w)
	asked = bothFamilies(w.T, arrived)
	if c.second != nil {
		onwards = bothFamilies(w.T, c.second.questions(w))
	}
	c.asked += len(arrived)
	w.eventually("the server's own count", func() error { // it moves after the answer has left
		if own := w.questionsCounted(); own != c.asked {
			return fmt.Errorf("%d; want %d", own, c.asked)
		}
		return nil
	})
	return asked, onwards
}

func (w *world) questionsCounted() int {
	w.Helper()
	const name, udp = "coredns_dns_requests_total", `proto="udp"`
	return int(w.metric(name, udp, `type="A"`) + w.metric(name, udp, `type="AAAA"`))
}

// bothFamilies is how many names there are, each asked for once by A and once by AAAA before the next one is.
func bothFamilies(t *testing.T, questions []dns.Question) (names int) {
	t.Helper()
	for pair := range slices.Chunk(questions, 2) {
		if len(pair) < 2 || pair[0].Name != pair[1].Name || min(pair[0].Qtype, pair[1].Qtype) != dns.TypeA || max(pair[0].Qtype, pair[1].Qtype) != dns.TypeAAAA {
			t.Errorf("not each name by A and AAAA: %v", questions)
		}
		names++
	}
	return names
}

// table shows the costs as a reader of the README compares them.
func table() string {
	var text strings.Builder
	text.WriteString(`Names that are asked for, one after another, until getent (glibc) has an address, in a pod with ndots:5. A name is one round trip,
and two questions at the server: A and AAAA, at the same time. "4+1": one of the four goes on to the second server. "none": not found.
"import": there is an import foo. "local": there is a local Service foo as well, and its address is what is found.

                           foo.default.svc       foo.default           foo                   www.example.org
                           import     local      import     local      import     local
`)
	for _, way := range ways {
		line := fmt.Sprintf("%-27s", way.name)
		for _, c := range way.costs {
			line += fmt.Sprintf("%-11s", c)
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return text.String()
}

func (c cost) String() string {
	text := strconv.Itoa(c.asked)
	if c.onwards > 0 {
		text += "+" + strconv.Itoa(c.onwards)
	}
	if !c.found {
		text += ", none"
	}
	return text
}
