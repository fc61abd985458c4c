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
	"flag"
	"path/filepath"
	"time"

	"github.com/clusterset-dns/multicluster/bench/measure"
)

// How much happens at the same time.
const (
	perSecond = 1000 // changes, as far as the API server gets on with them
	queriers  = 4    // each asks again as soon as it has its answer
	writers   = measure.Writers
	imports   = 2000 // of type ClusterSetIP
	headless  = 40   // imports of type Headless
)

func main() {
	length := flag.Duration("for", 10*time.Minute, "how long to change, ask and disturb")
	out := flag.String("out", filepath.Join("docs", "results", "soak.txt"), "the file for the results; none if empty")
	flag.Parse()
	measure.Main("soak", func(ctx context.Context) { run(ctx, *length, *out) })
}
