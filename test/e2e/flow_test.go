package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// flow is one request after another in a pod.
type flow struct {
	client *clientPod
	marker string // the file whose presence ends it
	ended  chan error
	out    string
}

// flow begins requests, and returns once ten are over. They end with stop. One that has no answer within the patience has failed.
func (p *clientPod) flow(name string, patience time.Duration) *flow {
	return p.repeat(name, get(name, patience)+ownPort)
}

// ownPort gives each request of a flow another source port, which no request of the last minutes had,
// or the next free one. With the port of a connection that had no answer, a request would reach the
// same endpoint again (TestSourcePortOfAnUnansweredConnection). From 32768 on are the ports that the
// kernel gives to other requests of the pod.
const ownPort = " --local-port $((base + i % 6000))-32767"

// get is a shell's line for one request.
func get(name string, patience time.Duration) string {
	return fmt.Sprintf("curl -sS -m %.0f http://%s/", patience.Seconds(), name)
}

// flows are so many flows side by side.
func (p *clientPod) flows(n int, name string, patience time.Duration) flows {
	all := make(flows, n)
	for i := range all {
		all[i] = p.repeat(fmt.Sprintf("%s-%d", name, i), get(name, patience)+ownPort)
	}
	return all
}

type flows []*flow

// stop gives the requests of all, the earliest first.
func (all flows) stop() []request {
	var requests []request
	for _, f := range all {
		requests = append(requests, f.stop()...)
	}
	slices.SortFunc(requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	return requests
}

// flowByTTL is a flow of requests to port 8080 of any of a name's addresses. As a cache does, it keeps them for as long as the server's
// answer says, in whole seconds.
func (p *clientPod) flowByTTL(name string, patience time.Duration) *flow {
	return p.repeat("cached-"+name, fmt.Sprintf(`f=/tmp/addresses; now=$(date +%%s); until=$(cat $f.until 2>/dev/null); [ "${until:-0}" -gt $now ] || {
		dig +noall +answer A %s >$f; awk -v now=$now '{ print now + $2; exit }' $f >$f.until; }
		curl -sS -m %.0f http://$(awk '{ print $5 }' $f | shuf -n 1):8080/`, name, patience.Seconds()))
}

// lookups is a flow of questions for a name's addresses, each of which is given as address/TTL.
func (p *clientPod) lookups(name string) *flow {
	return p.repeat("lookups-"+name, fmt.Sprintf(`dig +noall +answer A %s | awk '{ printf "%%s/%%s ", $5, $2 }'`, name))
}

// repeat runs a shell's line again and again, with the number of the run in i.
func (p *clientPod) repeat(name, line string) *flow {
	number := p.begun.Add(1)
	f := &flow{client: p, marker: fmt.Sprintf("/tmp/stop-%s-%d", name, number), ended: make(chan error, 1)}
	line = fmt.Sprintf(`i=0 base=%[3]d; until [ -e %[1]s ]; do i=$((i + 1)); echo "$(date +%%s.%%N) $(exec 2>&1; %[2]s)"; echo >>%[1]s-not; done`, f.marker, line, 2000+number%5*6000)
	go func() {
		var err error
		f.out, err = p.exec(p.scene.t.Context(), line)
		f.ended <- err
	}()
	p.scene.eventually("requests in "+p.cluster.id+" go on", func(ctx context.Context) error {
		_, err := p.exec(ctx, "[ $(wc -l <"+f.marker+"-not) -ge 10 ]")
		return err
	})
	return f
}

// request is one of a flow, or a lookup: when it began, by the pod's own clock, and the answer.
type request struct {
	at   time.Duration // since 1970
	who  string        // the cluster, or the number of curl's error
	said string        // the whole answer
}

// goesOn waits for some more requests.
func (f *flow) goesOn(requests int) {
	s := f.client.scene
	s.t.Helper()
	count := func(ctx context.Context) (n int, err error) {
		out, err := f.client.exec(ctx, "wc -l <"+f.marker+"-not")
		if err == nil {
			n, err = strconv.Atoi(out)
		}
		return n, err
	}
	before, err := count(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.eventually(fmt.Sprintf("%d more requests in %s", requests, f.client.cluster.id), func(ctx context.Context) error {
		now, err := count(ctx)
		if err == nil && now < before+requests {
			err = fmt.Errorf("there were %d", now-before)
		}
		return err
	})
}

// stop gives all requests.
func (f *flow) stop() []request {
	t := f.client.scene.t
	t.Helper()
	if _, err := f.client.exec(t.Context(), "touch "+f.marker); err != nil {
		t.Fatal(err)
	}
	if err := <-f.ended; err != nil {
		t.Fatalf("requests in %s: %v", f.client.cluster.id, err)
	}
	var all []request
	for line := range strings.Lines(f.out) {
		began, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(began, 64)
		if err != nil {
			t.Fatalf("a line of requests in %s: %q", f.client.cluster.id, line)
		}
		all = append(all, request{time.Duration(seconds * float64(time.Second)), whose(answer), answer})
	}
	return all
}

// others are the requests that none of the clusters answered, each with the time since the first request of all.
func others(all []request, clusters ...*cluster) []string {
	var lines []string
	for _, r := range all {
		if !slices.ContainsFunc(clusters, func(c *cluster) bool { return c.id == r.who }) {
			lines = append(lines, fmt.Sprintf("%.1f s: %s", (r.at-all[0].at).Seconds(), r.said))
		}
	}
	return lines
}

// longestGap is the longest time between two requests that were answered by clusters.
func longestGap(all []request, clusters ...*cluster) time.Duration {
	var longest, last time.Duration
	for _, r := range all {
		for _, c := range clusters {
			if r.who != c.id {
				continue
			}
			if last > 0 {
				longest = max(longest, r.at-last)
			}
			last = r.at
		}
	}
	return longest
}

// tally counts requests by who answered.
func tally(all []request) answers {
	sums := answers{}
	for _, r := range all {
		sums[r.who]++
	}
	return sums
}

// TestUnitMeasures: what is measured is made of requests by these.
func TestUnitMeasures(t *testing.T) {
	a, b := &cluster{id: "c1"}, &cluster{id: "c2"}
	var all []request
	for i, answer := range []string{"db-1 c1", "db-1 c1", "curl: (7) Failed to connect", "curl: (28) Timed out", "db-2 c2", "db-2 c2", ""} {
		all = append(all, request{time.Hour + time.Duration(i)*time.Second, whose(answer), answer})
	}
	if gap := longestGap(all, a, b); gap != 3*time.Second {
		t.Errorf("the longest time without an answer is %v, want that from the second request to the fifth", gap)
	}
	if first, last := failures(all, a, b); first != time.Hour+2*time.Second || last != time.Hour+6*time.Second {
		t.Errorf("requests failed from %v to %v", first, last)
	}
	if got, want := tally(all), (answers{"c1": 2, "c2": 2, "curl: (7)": 1, "curl: (28)": 1, "": 1}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if failed := others(all, a, b); len(failed) != 3 || failed[0] != "2.0 s: curl: (7) Failed to connect" {
		t.Errorf("%q", failed)
	}
}
