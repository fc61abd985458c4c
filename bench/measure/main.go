// Package measure has what the benchmarks have in common: how they run, the machine, CoreDNS as a process, many objects, and quantiles.
package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Main runs a benchmark until it returns, or Check ends it. A signal ends its context. The libraries of Kubernetes log nothing: while an API
// server is away, each watch would.
func Main(name string, run func(context.Context)) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := Catch(func() { run(ctx) })
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\n%s: %v\n", name, err)
		os.Exit(1)
	}
}

type failure struct{ error }

// Check ends the benchmark with an error, if there is one; what is deferred is done. It is for the goroutine of Main, or of Catch.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must gives what a function returned, unless Check ends the benchmark.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Catch returns the error with which Check has ended a function.
func Catch(do func()) (err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failure:
			err = end.error
		default:
			panic(end)
		}
	}()
	do()
	return nil
}

// Machine is what the figures of a run were measured with: the first words of its results.
func Machine() string {
	commit, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		commit = []byte("an unknown commit")
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	processor := runtime.GOARCH
	if found := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(cpuinfo); found != nil {
		processor = string(found[1])
	}
	return fmt.Sprintf("%d cores, %s, %s, %s", runtime.NumCPU(), processor, runtime.Version(), strings.TrimSpace(string(commit)))
}
