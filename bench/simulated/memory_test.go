package simulated

import (
	"runtime"
	"testing"
)

// A benchmark has 99 peers of 500 Services in one process, beside the programs that it measures.
func TestMemoryOfAPeer(t *testing.T) {
	const limit = 3 << 20
	w := World{Peers: 4, Services: 500, Endpoints: 3, Namespaces: 10}
	shared, err := certificates()
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	var all []*Server
	for peer := range w.Peers {
		s, err := New(shared, Options{}, w.Objects(peer))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	each := (heap() - before) / int64(len(all))
	runtime.KeepAlive(all)
	t.Logf("%d KiB for each peer of %d Services", each>>10, w.Services)
	if each > limit {
		t.Errorf("a peer needs %d bytes; want at most %d", each, limit)
	}
}

func heap() int64 {
	for range 2 { // the first collection frees what pools and finalizers have held
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
