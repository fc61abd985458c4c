package proc

import (
	"os"
	"testing"
	"time"
)

func TestStat(t *testing.T) {
	const tail = " S 1 31157 31157 0 -1 4194560 9 0 0 0 123 45 6 7 20 0 9 0 1145612 1344708 14851"
	for _, name := range []string{"(coredns)", "(a (strange) name)"} {
		cpu, err := parseStat("31264 " + name + tail)
		if err != nil || cpu != 1680*time.Millisecond {
			t.Errorf("%s: %v, %v; want 1.68s", name, cpu, err)
		}
	}
	for _, text := range []string{"", "1 (coredns) S 1 2", "1 (coredns) S 1 2 3 4 5 6 7 8 9 10 11 x 45 6"} {
		if cpu, err := parseStat(text); err == nil {
			t.Errorf("%q: %v; want an error", text, cpu)
		}
	}
}

func TestPeak(t *testing.T) {
	peak, err := parsePeak("Name:\tcoredns\nVmPeak:\t 1 kB\nVmHWM:\t   59404 kB\nVmRSS:\t   2 kB\n")
	if err != nil || peak != 59404<<10 {
		t.Errorf("%d, %v; want %d", peak, err, 59404<<10)
	}
	for _, text := range []string{"", "Name:\tcoredns\nVmRSS:\t   2 kB\n"} {
		if peak, err := parsePeak(text); err == nil {
			t.Errorf("%q: %d; want an error", text, peak)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	if _, err := CPU(os.Getpid()); err != nil {
		t.Error(err)
	}
	if peak, err := Peak(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("%d, %v; want at least a MiB", peak, err)
	}
}
