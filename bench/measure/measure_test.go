package measure

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{[]float64{3}, 0.5, 3},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 1, 3, 2}, 0.5, 2.5},
		{[]float64{3, 1, 2}, 0.99, 3},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
	} {
		if got := Quantile(c.values, c.q); got != c.want {
			t.Errorf("quantile %v of %v: %v; want %v", c.q, c.values, got, c.want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestCPUTimeIsOfTheRightFields(t *testing.T) {
	const tail = " S 1 31157 31157 0 -1 4194560 9 0 0 0 123 45 6 7 20 0 9 0 1145612 1344708 14851"
	for _, name := range []string{"(coredns)", "(a (strange) name)"} {
		cpu, err := cpuTime("31264 " + name + tail)
		if err != nil || cpu != 1680*time.Millisecond {
			t.Errorf("%s: %v, %v; want 1.68s", name, cpu, err)
		}
	}
	for _, text := range []string{"", "1 (coredns) S 1 2", "1 (coredns) S 1 2 3 4 5 6 7 8 9 10 11 x 45 6"} {
		if cpu, err := cpuTime(text); err == nil {
			t.Errorf("%q: %v; want an error", text, cpu)
		}
	}
}

func TestFiguresAreFound(t *testing.T) {
	const heap = "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 1\n# HeapAlloc = 3670016\n# HeapSys = 2\n"
	if got, err := find(heap, heapLine); err != nil || got != 3670016 {
		t.Errorf("%d, %v; want 3670016", got, err)
	}
	if got, err := find("goroutine profile: total 22\n1 @ 0x1\n", goroutineLine); err != nil || got != 22 {
		t.Errorf("%d, %v; want 22", got, err)
	}
	if got, err := find("heap profile: ", heapLine); err == nil {
		t.Errorf("a profile without statistics has a heap of %d", got)
	}
	resident, err := status(os.Getpid(), residentLine)
	if err != nil || resident < 1<<20 {
		t.Errorf("%d, %v; want at least a MiB", resident, err)
	}
	if peak, err := status(os.Getpid(), peakLine); err != nil || peak < resident {
		t.Errorf("%d, %v; want at least what is resident", peak, err)
	}
}
