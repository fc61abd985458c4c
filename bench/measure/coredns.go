package measure

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// CoreDNS is a running CoreDNS.
type CoreDNS struct {
	*kube.Program
	Address    string
	pprof      string        // its address: on a port of its own, it costs a query nothing
	Took, Used time.Duration // from its start until it was ready, and its CPU until then
}

// StartCoreDNS runs a CoreDNS with one server block, of the given plugins, beside a cluster until it is ready. Far more time than any
// start takes is allowed: only one that fails gets there.
func StartCoreDNS(ctx context.Context, c *kube.Cluster, program, plugins string, ready func(address string) error) (*CoreDNS, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	s := &CoreDNS{}
	for _, address := range []*string{&s.Address, &s.pprof} {
		if *address, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	_, port, _ := net.SplitHostPort(s.Address)
	corefile := filepath.Join(filepath.Dir(c.Kubeconfig), "Corefile-"+port)
	text := fmt.Sprintf(".:%s {\n bind 127.0.0.1\n pprof %s\n %s\n}\n", port, s.pprof, plugins)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	begin := time.Now()
	check := func(context.Context) error {
		err := ready(s.Address)
		s.Took = time.Since(begin)
		return err
	}
	if s.Program, err = c.Beside(ctx, check, program, "-conf", corefile); err != nil {
		return nil, err
	}
	s.Used, err = s.CPU()
	return s, err
}

// FreeAddress is an unused address of loopback, over UDP and TCP.
func FreeAddress() (string, error) {
	port, err := kube.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

var (
	heapLine      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutineLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
	peakLine      = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)
	residentLine  = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)
)

// Heap is what is reachable on the heap, in bytes, after another garbage collection. The plugin pprof hangs up after five seconds, in which
// the big heap of a busy process is not always collected: then it is tried again.
func (s *CoreDNS) Heap(ctx context.Context) (heap int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	err = Until(ctx, time.Second, func() (err error) {
		heap, err = Figure(ctx, "http://"+s.pprof+"/debug/pprof/heap?gc=1&debug=1", heapLine)
		return err
	})
	return heap, err
}

// Goroutines is how many there are.
func (s *CoreDNS) Goroutines(ctx context.Context) (int64, error) {
	return Figure(ctx, "http://"+s.pprof+"/debug/pprof/goroutine?debug=1", goroutineLine)
}

// Peak is the most memory that the process ever had resident, in bytes.
func (s *CoreDNS) Peak() (int64, error) { return status(s.PID(), peakLine) }

// Resident is the memory that the process has resident now, in bytes.
func (s *CoreDNS) Resident() (int64, error) { return status(s.PID(), residentLine) }

// CPU is the user and system time that the process has used so far, in all its threads.
func (s *CoreDNS) CPU() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		return 0, err
	}
	return cpuTime(string(text))
}

// cpuTime adds the fields 14 and 15 of /proc/PID/stat. It counts from the end of the second, the program's name in brackets, which may have
// spaces and brackets itself.
func cpuTime(stat string) (time.Duration, error) {
	const user, system = 14 - 3, 15 - 3
	const tick = 10 * time.Millisecond // for every program, whatever the kernel's own clock is
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= system {
		return 0, fmt.Errorf("no /proc/PID/stat: %q", stat)
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/PID/stat: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

func status(pid int, line *regexp.Regexp) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kib, err := find(string(text), line)
	return kib << 10, err
}

// Figure is the number on a page's line.
func Figure(ctx context.Context, url string, line *regexp.Regexp) (int64, error) {
	text, err := binaries.Get(ctx, url)
	if err != nil {
		return 0, err
	}
	return find(text, line)
}

func find(text string, line *regexp.Regexp) (int64, error) {
	found := line.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no line like %s", line)
	}
	return strconv.ParseInt(found[1], 10, 64)
}
