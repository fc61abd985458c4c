package main

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory starts a garbage collection when the heap has grown by 50 % of the live data instead of
// 100 %. Nearly all data lives as long as the objects of the clusters, so there is little garbage.
//
// It also lets the garbage collector work harder before the container's memory limit ends the process:
// Go knows no such limits. What is not Go's has a tenth of the memory. Without a limit nothing changes.
//
// The environment variables GOGC and GOMEMLIMIT take precedence.
func limitMemory() {
	const percent = 50
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	_, _ = memlimit.Set(memlimit.WithRatio(0.9)) // an error means that there is no cgroup
}
