package corefile

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// TestObserving is for what people see of a running server besides its answers: metadata in its log, and its metrics.
func TestObserving(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		startUpstream(t)
		apply(t, c, aHeadlessImport)
		const format = `    metadata
    log . "asked {name} {type}: {/multicluster/service},{/multicluster/namespace},{/multicluster/endpoint},{/multicluster/cluster},{/multicluster/port-name},{/multicluster/protocol}"
`
		text := replaced(t, read(t, example("alias")), "    ready\n", "    ready\n"+format)
		text = replaced(t, text, "    cache 30 {", "    cache 30 example.org {") // so that a change is seen at once
		server := start(t, c, "53", temporary(t, text))
		getsReady(t)
		t.Run("metadata", func(t *testing.T) { testMetadata(t, server) })
		t.Run("the time from a change to its answer", func(t *testing.T) { testProgramming(t, c) })
	})
}

// testMetadata has an in-tree fault of the list of known ones as its second case: "protocol=clusterid, port-name=host", and no cluster.
func testMetadata(t *testing.T, server *controlplane.Beside) {
	for question, want := range map[string]string{
		foo:                  "foo,default,,,,",
		"db-0.member1." + db: "db,default,db-0,member1,,",
		"db-0.Member2.east.DB.default.svc.clusterset.local.": "db,default,db-0,member2.east,,",
		"_sql._tcp." + db:                      "db,default,,,sql,tcp",
		"_sql._tcp." + localDB:                 "db,default,,,sql,tcp",
		localFoo:                               "foo,default,,,,",
		"nobody.nowhere.svc.clusterset.local.": "nobody,nowhere,,,,",
		"clusterset.local.":                    ",,,,,",
		"www.example.org.":                     "-,-,-,-,-,-",
	} {
		if _, err := exchange("udp", "53", question, dns.TypeA); err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("asked %s A: %s\n", strings.ToLower(question), want)
		controlplane.Eventually(t, "the log has "+line, func() error { // it is written after the answer
			if text := read(t, server.Log()); !strings.Contains(text, line) {
				return fmt.Errorf("the log is\n%s", text)
			}
			return nil
		})
	}
}

func testProgramming(t *testing.T, c *controlplane.Cluster) {
	const name = "coredns_multicluster_dns_programming_duration_seconds"
	for _, change := range []struct{ kind, text, asked, want string }{
		{"ServiceImport", anImport, foo, "NOERROR 10.0.0.77"},
		{"ServiceImport", strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"), foo, "NOERROR 10.0.0.78"},
		{"EndpointSlice", anotherSlice, "db-0.member2.east." + db, "NOERROR 10.2.0.5"},
	} {
		kind := fmt.Sprintf("kind=%q", change.kind)
		count, sum := metric(t, name+"_count", kind), metric(t, name+"_sum", kind)
		began := time.Now()
		apply(t, c, change.text)
		wants(t, change.asked, dns.TypeA, change.want)
		most := time.Since(began).Seconds() + 1.1 // the API server notes whole seconds, so the value is up to one too high
		controlplane.Eventually(t, "one more "+change.kind, func() error {
			if now := metric(t, name+"_count", kind); now != count+1 {
				return fmt.Errorf("%v after %v", now, count)
			}
			return nil
		})
		if took := metric(t, name+"_sum", kind) - sum; took < 0 || took > most {
			t.Errorf("%s: %v s; want %v at most", change.kind, took, most)
		}
	}
}

// metric is what the plugin prometheus says of a metric: the sum of its values, of all those that have the labels.
func metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 3 * time.Second}
	response, err := client.Get("http://127.0.0.1:9153/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		has := func(label string) bool { return strings.Contains(series, label) }
		if !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, func(label string) bool { return !has(label) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += v
	}
	return sum
}
