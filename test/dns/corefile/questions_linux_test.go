package corefile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// way is one of those to have imports on the search path.
type way struct {
	name     string
	corefile func(t *testing.T) string // of the cluster's own server
	second   string                    // the example that a second server runs; "" if there is none
	searches string                    // of dnsConfig, beside a pod's own; NS stands for its namespace
	costs    []cost                    // as in lookups
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
		name: "nothing, to compare with", corefile: asStock,
		costs: []cost{none(4), found(3), none(4), found(2), none(4), found(1), found(4)},
	},
	{
		name: "dnsConfig, one entry", corefile: asExample("stock"), searches: "clusterset.local",
		costs: []cost{found(4), found(3), none(5), found(2), none(5), found(1), found(5)},
	},
	{
		name: "dnsConfig, three entries", corefile: asExample("stock"), searches: "NS.svc.clusterset.local svc.clusterset.local clusterset.local",
		costs: []cost{found(6), found(3), found(5), found(2), found(4), found(1), found(7)},
	},
	{
		name: "autopath", corefile: asExample("autopath"),
		costs: []cost{found(1), found(1), none(4), found(1), none(4), found(1), found(1)},
	},
	{
		name: "alias", corefile: asExample("alias"),
		costs: []cost{found(3), found(3), found(2), found(2), found(1), found(1), found(4)},
	},
	{
		name: "alias and autopath", corefile: asAliasWithAutopath,
		costs: []cost{found(1), found(1), found(1), found(1), found(1), found(1), found(1)},
	},
	{
		name: "second CoreDNS, dnsConfig", corefile: asForwarding, second: "second-server", searches: "clusterset.local",
		costs: []cost{onwards(1, found(4)), found(3), onwards(1, none(5)), found(2), onwards(1, none(5)), found(1), onwards(1, found(5))},
	},
	{
		name: "second CoreDNS, alias", corefile: asExample("alias-forwarding"), second: "alias-second-server",
		costs: []cost{onwards(3, found(3)), onwards(2, found(3)), onwards(2, found(2)), onwards(1, found(2)), onwards(1, found(1)), found(1), onwards(3, found(4))},
	},
}

func asExample(name string) func(*testing.T) string {
	return func(t *testing.T) string { return read(t, example(name)) }
}

func asStock(t *testing.T) string {
	return replaced(t, read(t, example("stock")), "\n    multicluster clusterset.local\n", "\n")
}

func asAliasWithAutopath(t *testing.T) string {
	return replaced(t, read(t, example("alias")), "    kubernetes cluster.local", "    autopath @multicluster\n    kubernetes cluster.local")
}

// asForwarding counts in both of its blocks, and has no cache for the second server's zone: what is counted is the first time that a
// name is asked for.
func asForwarding(t *testing.T) string {
	return asStock(t) + replaced(t, read(t, example("forwarding")), "    cache 5\n", "    prometheus :9153\n")
}

// TestQuestions counts what reaches the server when glibc looks a name up in a pod, by each way to imports. It holds the table in
// docs/results/questions.txt, which `make questions` writes: it sets the variable QUESTIONS.
func TestQuestions(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{ServiceCIDRs: "10.96.0.0/24"})
		installCRDs(t, c)
		if err := c.StartKubeProxy(t.Context()); err != nil {
			t.Fatal(err)
		}
		apply(t, c, anImport)
		apply(t, c, endpoints("foo", true))
		apply(t, c, binaries.KubeadmRights)
		kubectl(t, c, "apply", "-k", "deploy/plugin/cluster-coredns")
		startUpstream(t)
		for i, w := range ways {
			t.Run(w.name, func(t *testing.T) { w.test(t, c, i > 0) })
		}
		path := filepath.Join(binaries.Root(), "docs", "results", "questions.txt")
		if os.Getenv("QUESTIONS") != "" && !t.Failed() {
			write(t, path, table())
		}
		if read(t, path) != table() {
			t.Errorf("%s shows something else: run `make questions`. It should be\n%s", path, table())
		}
	})
}

func (w way) test(t *testing.T, c *controlplane.Cluster, imports bool) {
	if w.second != "" {
		startSecondServer(t, c, temporary(t, withoutPorts(t, read(t, example(w.second)))))
	}
	asPod(t, c, "kube-system", "coredns")
	start(t, c, "53", temporary(t, w.corefile(t)))
	getsReady(t)
	if imports {
		wantsOver(t, "tcp", "53", foo, dns.TypeA, "NOERROR 10.0.0.77")
	}
	counter := counter{first: doorOf(t, server, 53), asked: questionsCounted(t)}
	if w.second != "" {
		counter.second = doorOf(t, secondIP, 1053)
	}
	for i, lookup := range lookups {
		if !lookup.local {
			w.look(t, lookup.name, w.costs[i], "10.0.0.77", &counter)
		}
	}
	local := strings.Replace(aLocalFoo, "10.0.0.101", "10.96.0.101", 1)
	apply(t, c, local)
	defer remove(t, c, local)
	wantsOver(t, "tcp", "53", localFoo, dns.TypeA, "NOERROR 10.96.0.101")
	for i, lookup := range lookups {
		if lookup.local {
			w.look(t, lookup.name, w.costs[i], "10.96.0.101", &counter)
		}
	}
}

// look resolves a name in pods of the import's namespace and of another one, where `foo` alone is nothing.
func (w way) look(t *testing.T, name string, want cost, address string, counter *counter) {
	t.Helper()
	if name == "www.example.org" {
		address = "192.0.2.1"
	}
	for _, namespace := range []string{"default", "shop"} {
		search := fmt.Sprintf("%[1]s.svc.cluster.local svc.cluster.local cluster.local %[2]s", namespace, strings.ReplaceAll(w.searches, "NS", namespace))
		asClientOf(t, search)
		got := getent(t, name)
		asked, onwards := counter.count(t)
		if namespace != "default" && name == "foo" {
			want = cost{false, asked, onwards} // whatever it takes
		}
		if is := (cost{got == address, asked, onwards}); is != want || (!is.found && !strings.HasPrefix(got, "nothing")) {
			t.Errorf("%s in namespace %s is %s: %+v; want %+v", name, namespace, got, is, want)
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
func (c *counter) count(t *testing.T) (asked, onwards int) {
	t.Helper()
	arrived := c.first.questions(t)
	asked = bothFamilies(t, arrived)
	if c.second != nil {
		onwards = bothFamilies(t, c.second.questions(t))
	}
	c.asked += len(arrived)
	controlplane.Eventually(t, "the server's own count", func() error { // it moves after the answer has left
		if own := questionsCounted(t); own != c.asked {
			return fmt.Errorf("%d; want %d", own, c.asked)
		}
		return nil
	})
	return asked, onwards
}

func questionsCounted(t *testing.T) int {
	t.Helper()
	const name, udp = "coredns_dns_requests_total", `proto="udp"`
	return int(metric(t, name, udp, `type="A"`) + metric(t, name, udp, `type="AAAA"`))
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
	for _, w := range ways {
		line := fmt.Sprintf("%-27s", w.name)
		for _, c := range w.costs {
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
