// Command many measures one controller with many peers: a real kube-apiserver for its own cluster, and the simulated API servers of 99
// peers. It runs from the project's top folder, by `make bench-100` and `make bench-scale`. It writes docs/results/many.txt, and adds the
// rows of worlds without shared names to scale.csv.
//
//	bare client ──▶ API server of this cluster        floor: the same writes, with nothing to read and nothing to decide
//	controller  ──▶ API server of this cluster        first sync, idle, changes, outages of peers, restart
//	      ▲
//	      └── watches of 3 × 99 resources ── simulated peers (in this process)
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/clusterset-dns/multicluster/bench/simulated"
)

// size is how much there is of everything.
type size struct {
	world simulated.World
	idle  time.Duration // how long requests and CPU time are counted while nothing changes
	// rate is how many endpoints change in a second, for as long as changing.
	rate     int
	changing time.Duration
	out      string
}

func main() {
	var s size
	flag.IntVar(&s.world.Peers, "peers", 99, "peers")
	flag.IntVar(&s.world.Services, "services", 500, "Services that each peer exports")
	flag.IntVar(&s.world.Shared, "shared", 0, "how many of them have the same names in all peers")
	flag.IntVar(&s.world.Endpoints, "endpoints", 3, "endpoints of each Service in each peer")
	flag.IntVar(&s.world.Unexported, "unexported", 0, "further Services of each peer")
	flag.BoolVar(&s.world.Undescribed, "undescribed", false, "peers of earlier releases, whose Services are read")
	flag.IntVar(&s.world.Namespaces, "namespaces", 10, "namespaces that the Services are in")
	flag.DurationVar(&s.idle, "idle", 5*time.Minute, "how long requests are counted while nothing changes")
	flag.IntVar(&s.rate, "rate", 200, "endpoints that change in a second")
	flag.DurationVar(&s.changing, "changing", time.Minute, "how long endpoints change")
	flag.StringVar(&s.out, "out", filepath.Join("docs", "results", "many.txt"), "the file for the results; none if empty")
	flag.Parse()
	if s.world.Shared > s.world.Services {
		fmt.Fprintf(os.Stderr, "many: --shared is %d, but there are only %d Services (--services)\n", s.world.Shared, s.world.Services)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "\nmany: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// row is one line of the results.
type row struct {
	what string
	got  float64
	unit string
}

func run(ctx context.Context, s size) error {
	rows, err := measure(ctx, s)
	if err != nil {
		return err
	}
	text, err := report(s.world, rows)
	if err != nil {
		return err
	}
	fmt.Print("\n", text)
	if s.out == "" {
		return nil
	}
	if err := os.WriteFile(s.out, []byte(text), 0o644); err != nil {
		return err
	}
	if s.world.Shared > 0 {
		return nil
	}
	return record(filepath.Join(filepath.Dir(s.out), "scale.csv"), s.world, rows)
}

// record puts the rows of a run in the place of those of an earlier run with as many clusters: clusters, names that the others export,
// what, measured, unit.
func record(path string, w simulated.World, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	size := strconv.Itoa(w.Peers + 1)
	all = slices.DeleteFunc(all, func(line []string) bool { return line[0] == size })
	for _, r := range rows {
		all = append(all, []string{size, strconv.Itoa(w.Imports()), r.what, strconv.FormatFloat(r.got, 'g', 4, 64), r.unit})
	}
	slices.SortStableFunc(all, func(a, b []string) int { return cmp.Or(len(a[0])-len(b[0]), strings.Compare(a[0], b[0])) })
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(all); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func report(w simulated.World, rows []row) (string, error) {
	commit, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("an unknown commit")
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	_, processor, _ := strings.Cut(string(cpuinfo), "model name\t: ")
	processor, _, _ = strings.Cut(processor, "\n")
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, err = fmt.Fprintf(table, "%d cores, %s, %s, %s; all of it on this one machine\n"+
		"%d simulated peers x %d exported Services x %d endpoints, %d of the names in all peers, %d other Services in each: %d imports, %d EndpointSlices\n\nwhat\tmeasured\n",
		runtime.NumCPU(), processor, runtime.Version(), strings.TrimSpace(string(commit)), w.Peers, w.Services, w.Endpoints, w.Shared, w.Unexported, w.Imports(), w.Slices())
	for _, r := range rows {
		if err == nil {
			_, err = fmt.Fprintf(table, "%s\t%.4g %s\n", r.what, r.got, r.unit)
		}
	}
	if err == nil {
		err = table.Flush()
	}
	return text.String(), err
}

// part shows what is done and how long it took.
func part(what string, do func() error) error {
	fmt.Printf("%-90s", what+" ...")
	began := time.Now()
	err := do()
	fmt.Printf(" %6.1f s\n", time.Since(began).Seconds())
	return err
}
