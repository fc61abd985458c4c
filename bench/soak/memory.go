package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// memory is what CoreDNS has of it.
type memory struct {
	heap       int64 // bytes that are in use after a garbage collection
	resident   int64 // bytes of the whole process
	goroutines int64
}

// Bounds of what may be more at the end than at the begin, for the same world. A few kilobytes of an otherwise level heap are those of
// connections and buffers that happen to be open; a leak of four bytes per change would be seen after ten minutes.
const (
	heapMost      = 1.15
	goroutineMore = 5
)

// weigh looks several times, a second apart, and takes the least: connections that are about to be closed go, and what is held by
// finalizers and pools goes with the second collection.
func (s *server) weigh(ctx context.Context) (memory, error) {
	const times = 8
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var least memory
	for i := range times {
		m, err := s.glance(ctx)
		if err != nil {
			return m, err
		}
		if i == 0 {
			least = m
		}
		least = memory{min(least.heap, m.heap), min(least.resident, m.resident), min(least.goroutines, m.goroutines)}
		select {
		case <-ctx.Done():
			return m, ctx.Err()
		case <-tick.C:
		}
	}
	return least, nil
}

var (
	heapLine      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutineLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
	residentLine  = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
)

// glance looks once. Who collects the garbage of a busy process waits for its turn: the plugin pprof hangs up after five seconds, so
// that it may take several tries.
func (s *server) glance(ctx context.Context) (m memory, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = until(ctx, time.Second, func() error {
		m.heap, err = s.figure(ctx, "http://"+s.debug+"/debug/pprof/heap?gc=1&debug=1", heapLine)
		return err
	})
	if err != nil {
		return m, err
	}
	if m.goroutines, err = s.figure(ctx, "http://"+s.debug+"/debug/pprof/goroutine?debug=1", goroutineLine); err != nil {
		return m, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		return m, err
	}
	kib, err := find(string(status), residentLine)
	m.resident = kib << 10
	return m, err
}

// figure is a number on a page.
func (s *server) figure(ctx context.Context, url string, line *regexp.Regexp) (int64, error) {
	text, err := binaries.Get(ctx, url)
	if err != nil {
		return 0, err
	}
	return find(text, line)
}

// gauge is the value of a metric without labels.
func (s *server) gauge(ctx context.Context, name string) (int64, error) {
	return s.figure(ctx, "http://"+s.metrics+"/metrics", regexp.MustCompile(`(?m)^`+name+` (\d+)$`))
}

func find(text string, line *regexp.Regexp) (int64, error) {
	found := line.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no line like %s", line)
	}
	return strconv.ParseInt(found[1], 10, 64)
}

// level returns the difference between the end and the beginning, or "" if there is none.
func level(begin, end memory) string {
	switch {
	case float64(end.heap) > heapMost*float64(begin.heap):
		return fmt.Sprintf("the heap is %.2f times what it was", float64(end.heap)/float64(begin.heap))
	case end.goroutines > begin.goroutines+goroutineMore:
		return fmt.Sprintf("there are %d goroutines more", end.goroutines-begin.goroutines)
	}
	return ""
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
