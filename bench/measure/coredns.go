package measure

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// CoreDNS is a running CoreDNS.
type CoreDNS struct {
	*kube.Program
	Address    string
	pprof      string        // its address: on a port of its own, it costs a query nothing
	Took, Used time.Duration // from its start until it was ready, and its CPU until then
	corefile   string
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
	s.corefile = filepath.Join(filepath.Dir(c.Kubeconfig), "Corefile-"+port)
	if err := s.write(plugins); err != nil {
		return nil, err
	}
	begin := time.Now()
	check := func(context.Context) error {
		err := ready(s.Address)
		s.Took = time.Since(begin)
		return err
	}
	if s.Program, err = c.Beside(ctx, check, program, "-conf", s.corefile); err != nil {
		return nil, err
	}
	s.Used, err = s.CPU()
	return s, err
}

func (s *CoreDNS) write(plugins string) error {
	_, port, _ := net.SplitHostPort(s.Address)
	text := fmt.Sprintf(".:%s {\n bind 127.0.0.1\n pprof %s\n %s\n}\n", port, s.pprof, plugins)
	return os.WriteFile(s.corefile, []byte(text), 0o600)
}

// Reload has the server read a Corefile of other plugins. It returns before that is done.
func (s *CoreDNS) Reload(plugins string) error {
	if err := s.write(plugins); err != nil {
		return err
	}
	return syscall.Kill(s.PID(), syscall.SIGUSR1)
}

// FreeAddress is an unused address of loopback, over UDP and TCP.
func FreeAddress() (string, error) {
	port, err := kube.FreePort()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

var (
	heapLine      = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)
	goroutineLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
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

// Memory is what the process has: resident now, and the most that it ever had.
func (s *CoreDNS) Memory() (resident, peak int64, err error) {
	process, err := procfs.NewProc(s.PID())
	if err != nil {
		return 0, 0, err
	}
	status, err := process.NewStatus()
	return int64(status.VmRSS), int64(status.VmHWM), err
}

// CPU is the user and system time that the process has used so far, in all its threads.
func (s *CoreDNS) CPU() (time.Duration, error) {
	process, err := procfs.NewProc(s.PID())
	if err != nil {
		return 0, err
	}
	stat, err := process.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// Figure is the number on a page's line.
func Figure(ctx context.Context, url string, line *regexp.Regexp) (int64, error) {
	text, err := binaries.Get(ctx, url)
	if err != nil {
		return 0, err
	}
	found := line.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no line like %s", line)
	}
	return strconv.ParseInt(found[1], 10, 64)
}
