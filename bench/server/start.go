package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset-dns/multicluster/bench/measure"
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
func (b *bench) memory(ctx context.Context, w *world, title string, ready func(address string) error, before ...func()) {
	for range b.starts {
		for _, do := range before {
			do()
		}
		for _, each := range alike([]answerer{ours, inTree}, ready) {
			b.serve(ctx, w, []setup{each}, func(s []*server) { b.weigh(ctx, s[0], title) })
		}
	}
	b.say("  memory at %s", title)
}

// weigh takes the heap after several garbage collections: the first ones free what was held by finalizers and pools.
func (b *bench) weigh(ctx context.Context, s *server, title string) {
	var heap int64
	for range 4 {
		heap = measure.Must(s.Heap(ctx))
	}
	_, peak, err := s.Memory()
	measure.Check(err)
	b.samples.add(firstAnswer, title, s.who, s.Took.Seconds())
	b.samples.add(cpuToAnswer, title, s.who, s.Used.Seconds())
	b.samples.add(heapBytes, title, s.who, float64(heap))
	b.samples.add(peakBytes, title, s.who, float64(peak))
}

// onlyRead measures what the API server alone needs to send all imports: how long a client waits that only reads our watch. It is
// in the column of what is ready-made.
func (b *bench) onlyRead(ctx context.Context, w *world) {
	api := measure.Must(kubernetes.NewForConfig(w.Config))
	begin := time.Now()
	events := measure.Must(api.Discovery().RESTClient().Get().AbsPath("/apis/multicluster.x-k8s.io/v1beta1/serviceimports").Param("watch", "true").
		Param("sendInitialEvents", "true").Param("resourceVersionMatch", "NotOlderThan").Param("allowWatchBookmarks", "true").Stream(ctx))
	defer func() { _ = events.Close() }()
	measure.Check(readImports(events))
	b.samples.add(firstAnswer, b.manyImports(), readyMade, time.Since(begin).Seconds())
}

// readImports reads a watch that begins with all imports, up to the last of these.
func readImports(from io.Reader) error {
	events := bufio.NewReaderSize(from, 1<<16)
	for {
		event, err := events.ReadSlice('\n')
		switch {
		case err == nil && bytes.HasPrefix(event, []byte(`{"type":"ERROR"`)):
			return fmt.Errorf("the watch ended: %s", event)
		case err == nil && bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey)):
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
	}
}
