// Command soak keeps one CoreDNS with the plugin under changes, questions and disturbances for a
// long time, and compares each answer with what was true while the question was open (package
// oracle). It runs from the project's top folder, by `make soak`, and writes docs/results/soak.txt.
//
//	changer ──► kube-apiserver ──► proxy ──► CoreDNS ◄── queriers
//	   │             ▲               ▲                      │
//	   └─► oracle    └─ disturbances ┘         oracle ◄─────┘
//
// It fails if an answer was wrong, if CoreDNS did not sync with the API server again, or if it
// needs more memory at the end than at the beginning.
package main

import (
	"context"
	"errors"
	"flag"
	"path/filepath"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// options are those of the command line.
type options struct {
	length            time.Duration
	rate              float64
	queriers, writers int
	imports, headless int
	coredns, out      string
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long to change, ask and disturb")
	flag.Float64Var(&o.rate, "rate", 1000, "changes per second, as far as the API server gets on with them")
	flag.IntVar(&o.queriers, "queriers", 4, "how many ask at the same time; each asks again as soon as it has its answer")
	flag.IntVar(&o.writers, "writers", 32, "how many write at the same time")
	flag.IntVar(&o.imports, "imports", 2000, "imports of type ClusterSetIP")
	flag.IntVar(&o.headless, "headless", 40, "imports of type Headless")
	flag.StringVar(&o.coredns, "coredns", filepath.Join("bin", "coredns"), "the CoreDNS to test; one that is broken on purpose tests the test")
	flag.StringVar(&o.out, "out", filepath.Join("docs", "results", "soak.txt"), "the file for the results; none if empty")
	flag.Parse()
	measure.Main("soak", func(ctx context.Context) error { return run(ctx, o) })
}

var errBad = errors.New("not everything was as it has to be")
