package join_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clusterset-dns/multicluster/cli/testing/world"
)

// clustersOfMesh is how many clusters the mesh has, unless JOIN_CLUSTERS is set.
const clustersOfMesh = 12

// BenchmarkMesh joins clusters, each with each, with one command: the first time, and a second time, when there is nothing to write. Then
// it reads their status. All API servers run on this machine. The controllers have announced their IDs and do not run.
func BenchmarkMesh(b *testing.B) {
	n := clustersOfMesh
	if given := os.Getenv("JOIN_CLUSTERS"); given != "" {
		var err error
		if n, err = strconv.Atoi(given); err != nil || n < 2 {
			b.Fatalf("JOIN_CLUSTERS=%s is not a number of clusters: %v", given, err)
		}
	}
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("member%d", i+1))
	}
	w := world.New(b, ids...)
	for _, id := range ids {
		w.Announce(id, id)
	}
	links := n * (n - 1)
	timed := func(args []string, says string) float64 {
		b.Helper()
		began := time.Now()
		r := w.Run(args...)
		took := time.Since(began)
		if got := strings.Count(r.Out, says); got != links {
			b.Fatalf("%q: %d of %d links are %q\n%s%s", args, got, links, says, r.Out, r.Err)
		}
		return took.Seconds()
	}
	var first, second, status float64
	for b.Loop() {
		first += timed([]string{"join", "--mesh", "--wait=0"}, " created ")
		second += timed([]string{"join", "--mesh", "--wait=0"}, " unchanged ")
		began := time.Now()
		if r := w.Run("status"); strings.Count(r.Out, "member") < n {
			b.Fatalf("status: %s%s", r.Out, r.Err)
		}
		status += time.Since(began).Seconds()
		for _, id := range ids {
			w.Run("leave", "--all", id)
		}
	}
	runs := float64(b.N)
	b.ReportMetric(0, "ns/op") // with the parting, which nobody asks about
	b.ReportMetric(float64(links), "links")
	b.ReportMetric(first/runs, "s/join")
	b.ReportMetric(second/runs, "s/again")
	b.ReportMetric(status/runs, "s/status")
}
