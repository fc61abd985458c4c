package watch

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/world/badobjects"
)

// What a server may cost beside bad objects, and how long a neighbour's change may take.
const (
	mostMemory = 300 << 20
	mostDelay  = 500 * time.Millisecond
)

// Users with permission to write objects of one namespace cannot keep names of other namespaces
// from being answered, or a server from starting.
func TestBesideBadObjectsANeighboursChangeIsAnswered(t *testing.T) {
	c := shared.Cluster(t)
	writer, err := client.New(c.Config, client.Options{Scheme: badobjects.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	evil, neighbour := kube.Namespace(t, c), kube.Namespace(t, c)
	peak := watchMemory(t)
	apply(t, c, neighbour, importText("v1beta1", "foo", "10.0.0.1"))
	w, h := start(t, c.Config, Options{})
	become(t, w, "foo."+neighbour, "10.0.0.1")
	for _, bad := range badobjects.All(evil) {
		t.Run(bad.Name, func(t *testing.T) {
			t.Cleanup(func() {
				if err := bad.Delete(context.WithoutCancel(t.Context()), writer); err != nil {
					t.Error(err)
				}
			})
			var delays []time.Duration
			for n := range 3 {
				if err := errors.Join(bad.Delete(t.Context(), writer), bad.Create(t.Context(), writer)); err != nil {
					t.Fatal(err)
				}
				ip := fmt.Sprintf("10.0.1.%d", n+1)
				apply(t, c, neighbour, importText("v1beta1", "foo", ip))
				began := time.Now()
				become(t, w, "foo."+neighbour, ip)
				delays = append(delays, time.Since(began))
			}
			slices.Sort(delays)
			if median := delays[len(delays)/2]; median > slower*mostDelay {
				t.Errorf("a neighbour's change is answered after %v (%v)", median, delays)
			}
			t.Logf("a neighbour's changes are answered after %v", delays)
			again, _ := start(t, c.Config, Options{})
			become(t, again, "foo."+neighbour, "10.0.1.3")
		})
	}
	for _, said := range h.all() {
		if len(said) > 1000 {
			t.Errorf("told of %d bytes: %.100s", len(said), said)
		}
	}
	t.Logf("heard %q, peak memory %d MiB", h.all(), peak()>>20)
	if got := peak(); got > mostMemory {
		t.Errorf("the peak of memory is %d MiB", got>>20)
	}
}

// watchMemory notes the largest size of the process's memory, as far as Go's runtime knows it.
func watchMemory(t *testing.T) (peak func() uint64) {
	tick, ended := time.NewTicker(5*time.Millisecond), make(chan struct{})
	largest := make(chan uint64, 1)
	largest <- 0
	look := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(sample)
		most := max(<-largest, sample[0].Value.Uint64()-sample[1].Value.Uint64())
		largest <- most
		return most
	}
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	t.Cleanup(func() { tick.Stop(); close(ended) })
	return look
}
