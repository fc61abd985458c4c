package main

import "time"

// plan is how much to measure.
type plan struct {
	name    string
	rounds  int           // of each load; the answerers take turns in each
	load    time.Duration // of one answerer in one round: on two cores, about as much of the server's own time
	warmUp  time.Duration // before the first round; long enough to ask everything once
	starts  int           // of each server, where its start is what is measured
	imports struct{ few, some, many int }
	// headless services of some sizes, for questions, and of one size, for memory
	headless, manyHeadless, manyEndpoints int
	changes                               int // that are waited for
	changesPerSecond                      int // beside a load
}

var full = plan{
	name: "full", rounds: 7, load: 2 * time.Second, warmUp: 1500 * time.Millisecond, starts: 5,
	imports:  struct{ few, some, many int }{100, 10_000, 100_000},
	headless: 100, manyHeadless: 2_000, manyEndpoints: 500,
	changes: 200, changesPerSecond: 100,
}

var small = plan{
	name: "quick", rounds: 3, load: 700 * time.Millisecond, warmUp: 500 * time.Millisecond, starts: 1,
	imports:  struct{ few, some, many int }{100, 1_000, 5_000},
	headless: 10, manyHeadless: 100, manyEndpoints: 500,
	changes: 40, changesPerSecond: 100,
}
