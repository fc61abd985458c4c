// Command bench measures a clusterset: three clusters, each an etcd, a kube-apiserver and a multicluster-controller under its shipped
// rights, all on this machine. It runs from the project's top folder, by `make bench-clusterset`, and writes
// docs/results/clusterset.txt.
//
//  1. A small clusterset, idle: from the creation of a ServiceExport until CoreDNS in another cluster has its name.
//  2. Services of one cluster under changes of endpoints: from the change until the other cluster's slice has it.
//  3. A big clusterset, each Service exported by all three clusters: the first sync, memory, and the writes of a restart.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// size is how much there is of everything.
type size struct {
	exports   int           // to time, one after the other
	changing  int           // Services whose endpoints change
	changes   int           // a second
	changeFor time.Duration // long
	services  int           // of the big clusterset
	endpoints int           // of each Service
	out       string
}

func main() {
	var s size
	flag.IntVar(&s.exports, "exports", 300, "exports to time, one after the other")
	flag.IntVar(&s.changing, "changing", 1000, "exported Services whose endpoints change")
	flag.IntVar(&s.changes, "changes", 100, "changes of endpoints a second")
	flag.DurationVar(&s.changeFor, "change-for", time.Minute, "how long endpoints change")
	flag.IntVar(&s.services, "services", 5000, "Services that each of three clusters exports")
	flag.IntVar(&s.endpoints, "endpoints", 10, "endpoints of each Service in each cluster")
	flag.StringVar(&s.out, "out", filepath.Join("docs", "results", "clusterset.txt"), "the file for the results; none if empty")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "\nbench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// row is one line of the results.
type row struct {
	what       string
	got, reach float64
	unit       string
}

func run(ctx context.Context, s size) error {
	var rows []row
	for _, measure := range []func(context.Context, size) ([]row, error){latencies, atScale} {
		measured, err := measure(ctx, s)
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
	}
	var text strings.Builder
	if err := report(&text, rows); err != nil {
		return err
	}
	fmt.Print("\n", text.String())
	if s.out == "" {
		return nil
	}
	return os.WriteFile(s.out, []byte(text.String()), 0o644)
}

func report(out io.Writer, rows []row) error {
	commit, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("an unknown commit")
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	_, processor, _ := strings.Cut(string(cpuinfo), "model name\t: ")
	processor, _, _ = strings.Cut(processor, "\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err = fmt.Fprintf(table, "%d cores, %s, %s, %s; three clusters, all of it on this one machine\n\nwhat\tmeasured\tto reach\t\n",
		runtime.NumCPU(), processor, runtime.Version(), strings.TrimSpace(string(commit)))
	if err != nil {
		return err
	}
	reached, goals := 0, 0
	for _, r := range rows {
		verdict := ""
		if r.reach >= 0 {
			goals++
			if r.got <= r.reach {
				reached++
				verdict = fmt.Sprintf("%g %s\treached", r.reach, r.unit)
			} else {
				verdict = fmt.Sprintf("%g %s\tnot reached: %.2f x", r.reach, r.unit, r.got/r.reach)
			}
		}
		if _, err := fmt.Fprintf(table, "%s\t%s %s\t%s\n", r.what, figure(r.got), r.unit, verdict); err != nil {
			return err
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\n%d of %d goals are reached.\n", reached, goals)
	return err
}

// figure is a number with four digits or more, without an exponent.
func figure(number float64) string {
	if math.Abs(number) >= 1000 {
		return fmt.Sprintf("%.0f", number)
	}
	return fmt.Sprintf("%.4g", number)
}
