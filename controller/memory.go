package main

import (
	"os"
	"runtime/debug"
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
