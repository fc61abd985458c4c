package main

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitGarbage starts a garbage collection when the heap has grown by 50 % of the live data instead
// of 100 %. Nearly all data lives as long as the objects of the clusters, so there is little
// garbage. The environment variable GOGC takes precedence.
func limitGarbage() {
	const percent = 50
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// limitMemory lets the garbage collector work harder before the container's memory limit ends the
// process: Go knows no such limits. What is not Go's has a tenth of the memory. Without a limit nothing
// changes. The environment variable GOMEMLIMIT takes precedence.
func limitMemory() {
	_, _ = memlimit.Set(memlimit.WithRatio(0.9)) // an error means that there is no cgroup, or no limit
}
