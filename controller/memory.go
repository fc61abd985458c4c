package main

import (
	"os"
	"runtime/debug"
)

// limitGarbage lets the heap grow by half of what lives before it is cleaned, not by as much again: nearly all of it lives as long as
// the clusters' objects do, and there is little to clean. The environment's GOGC decides otherwise.
func limitGarbage() {
	const percent = 50
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
