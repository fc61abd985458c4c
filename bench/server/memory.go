package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
	"github.com/clusterset-dns/multicluster/bench/server/proc"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

// What is measured of a server's start.
const (
	heapBytes   = "heap, bytes"
	peakBytes   = "peak of the whole process, bytes"
	firstAnswer = "time to first answer, s"
	cpuToAnswer = "CPU to first answer, s"
)

// memory starts ours and the in-tree plugin, in turns, until they are ready, and adds how long that took, what is on their heap, and
// the most memory that they had. Before them, in each turn, it does what else is to be compared with their starts.
func (b *bench) memory(ctx context.Context, w *world, title string, ready func(address string) error, before ...func() error) error {
	for range b.starts {
		for _, do := range before {
			if err := do(); err != nil {
				return err
			}
		}
		for _, who := range []table.Who{table.Ours, table.InTree} {
			s, err := b.start(ctx, w, setup{who: who}, ready)
			if err != nil {
				return err
			}
			err = b.weigh(ctx, s, title)
			s.Stop()
			if err != nil {
				return fmt.Errorf("memory of %s: %w", who, err)
			}
		}
	}
	b.say("  memory at %s", title)
	return nil
}

func (b *bench) weigh(ctx context.Context, s *server, title string) error {
	heap, err := heapOf(ctx, s.pprof)
	if err != nil {
		return err
	}
	peak, err := proc.Peak(s.pid)
	b.samples.Add(firstAnswer, title, s.who, s.took.Seconds())
	b.samples.Add(cpuToAnswer, title, s.who, s.used.Seconds())
	b.samples.Add(heapBytes, title, s.who, float64(heap))
	b.samples.Add(peakBytes, title, s.who, float64(peak))
	return err
}

// heapOf is what is reachable on a server's heap. The first collections free what was held by finalizers and pools. The plugin pprof
// hangs up after five seconds, in which a big heap on a busy machine is not always collected: that is no reason to give up.
func heapOf(ctx context.Context, address string) (heap int64, err error) {
	const collections, tries = 4, 20
	done, failed := 0, error(nil)
	for try := 0; try < tries && done < collections; try++ {
		var text string
		if text, err = binaries.Get(ctx, "http://"+address+"/debug/pprof/heap?gc=1&debug=1"); err != nil {
			failed = err
			continue
		}
		if heap, err = parseHeap(text); err != nil {
			return 0, err
		}
		done++
	}
	if done < collections {
		return 0, fmt.Errorf("%d of %d garbage collections: %w", done, collections, failed)
	}
	return heap, nil
}

func parseHeap(profile string) (int64, error) {
	_, rest, _ := strings.Cut(profile, "\n# HeapAlloc = ")
	number, _, _ := strings.Cut(rest, "\n")
	heap, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("no HeapAlloc in the heap profile: %w", err)
	}
	return heap, nil
}
