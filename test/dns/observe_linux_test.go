package dns

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestObserving is for what people see of a running server besides its answers: metadata in its log, and its metrics.
func TestObserving(t *testing.T) {
	inNetwork(t, func(w *world) {
		const format = `    metadata
    log . "asked {name} {type}: {/multicluster/service},{/multicluster/namespace},{/multicluster/endpoint},{/multicluster/cluster},{/multicluster/port-name},{/multicluster/protocol}"
`
		w.coreDNS(uncached(edited(example("alias"), "    ready\n", "    ready\n"+format)))
		w.run("metadata", testMetadata)
		w.run("the time from a change to its answer", testProgramming)
	})
}

// testMetadata is for the way of the labels into the log; TestMetadata of the plugin has them all.
func testMetadata(w *world) {
	for name, want := range map[string]string{
		"db-0.Member2.east.DB.default.svc.clusterset.local.": "db,default,db-0,member2.east,,",
		"_sql._tcp." + localDB:                               "db,default,,,sql,tcp",
		outside:                                              "-,-,-,-,-,-",
	} {
		w.ask(name + " A")
		line := fmt.Sprintf("asked %s A: %s\n", strings.ToLower(name), want)
		w.eventually("the log has "+line, func() error { // it is written after the answer
			if text := read(w.T, w.log()); !strings.Contains(text, line) {
				return fmt.Errorf("the log is\n%s", text)
			}
			return nil
		})
	}
}

func testProgramming(w *world) {
	const name = "coredns_multicluster_dns_programming_duration_seconds"
	for _, change := range []struct{ kind, text, asked, want string }{
		{"ServiceImport", strings.Replace(anImport, "{name: foo}", "{name: new}", 1), "new.default.svc.clusterset.local.", "NOERROR 10.0.0.77"},
		{"ServiceImport", strings.ReplaceAll(anImport, "10.0.0.77", "10.0.0.78"), foo, "NOERROR 10.0.0.78"},
		{"EndpointSlice", anotherSlice, "db-0.member2.east." + db, "NOERROR 10.2.0.5"},
	} {
		kind := fmt.Sprintf("kind=%q", change.kind)
		count, sum := w.metric(name+"_count", kind), w.metric(name+"_sum", kind)
		began := time.Now()
		w.apply(change.text)
		w.wants(change.asked+" A", change.want)
		most := time.Since(began).Seconds() + 1.1 // the API server notes whole seconds, so the value is up to one too high
		w.eventually("one more "+change.kind, func() error {
			if now := w.metric(name+"_count", kind); now != count+1 {
				return fmt.Errorf("%v after %v", now, count)
			}
			return nil
		})
		if took := w.metric(name+"_sum", kind) - sum; took < 0 || took > most {
			w.Errorf("%s: %v s; want %v at most", change.kind, took, most)
		}
	}
}

// metric is what the plugin prometheus says of a metric: the sum of its values, of all those that have the labels.
func (w *world) metric(name string, labels ...string) (sum float64) {
	w.Helper()
	text, err := binaries.Get(w.Context(), "http://"+server+":9153/metrics")
	w.must(err)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ')
		series, value := line[:max(end, 0)], line[end+1:]
		if series != name && !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		w.must(err)
		sum += v
	}
	return sum
}
