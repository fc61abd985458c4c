// Command run runs the end-to-end tests: `make e2e`.
//
//	go run ./test/e2e/run [--keep] [--images FOLDER] [--results FILE] [--run PATTERN]
//
// It starts clusters of its own on this machine (test/clusters), makes and loads the images, and runs `go test ./test/e2e`; then it
// ends all that it started, also after a failure or Ctrl-C. With KUBECONFIGS=a:b set, it starts nothing and uses those clusters: they
// have our images, or E2E_IMAGES names others, such as coredns=registry.example.org/coredns:v1,stock=registry.k8s.io/coredns/coredns:v1.12.3,
// where stock is a CoreDNS without our plugin. What needs one that is not named is skipped, and so is what would load an image into
// nodes (E2E_LOAD) or kill a cluster (E2E_KILL).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

// name is that of a cluster of ours. Nobody else's has it.
func name(index int) string { return fmt.Sprintf("e2e%d", index) }

const separator = string(filepath.ListSeparator)

type options struct {
	keep                    bool
	images, results, filter string
	count                   int
}

func main() {
	var o options
	flag.BoolVar(&o.keep, "keep", false, "leave the clusters up")
	flag.StringVar(&o.images, "images", "", "folder of coredns.tar and multicluster-controller.tar; `make images` makes them unless given")
	flag.StringVar(&o.results, "results", "", "file for what the scenarios measured; test/results/e2e.txt unless given, or with --run none")
	flag.StringVar(&o.filter, "run", "", "run only the tests that match, as go test's -run does")
	flag.IntVar(&o.count, "clusters", 3, "how many clusters to start")
	flag.Parse()
	if o.results == "" && o.filter == "" {
		o.results = "test/results/e2e.txt"
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	began := time.Now()
	scratch, err := os.MkdirTemp("", "multicluster-e2e-run-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	kubeconfigs, kill, load := os.Getenv("KUBECONFIGS"), filepath.SplitList(os.Getenv("E2E_KILL")), filepath.SplitList(os.Getenv("E2E_LOAD"))
	names := os.Getenv("E2E_IMAGES")
	if kubeconfigs == "" {
		started, err := startAll(ctx, o)
		if !o.keep {
			defer func() { end(started) }()
		}
		if err != nil {
			return err
		}
		program := filepath.Join(scratch, "clusters")
		if err := command(ctx, "go", "build", "-o", program, "./test/clusters/run").Run(); err != nil {
			return err
		}
		var files []string
		for _, c := range started {
			files = append(files, c.Kubeconfig)
			kill = append(kill, program+" down "+c.Name)
			load = append(load, program+" load "+c.Name)
		}
		kubeconfigs = strings.Join(files, separator)
		names = "stock=" + images.Stock + "," + names // a later one wins
	}
	fmt.Printf("KUBECONFIGS=%s (%.0f s)\n", kubeconfigs, time.Since(began).Seconds())
	report := filepath.Join(scratch, "report")
	if err := test(ctx, o, scratch, "KUBECONFIGS="+kubeconfigs, "E2E_IMAGES="+names, "E2E_REPORT="+report,
		"E2E_KILL="+strings.Join(kill, separator), "E2E_LOAD="+strings.Join(load, separator)); err != nil {
		return err
	}
	fmt.Printf("all of it: %.0f s\n", time.Since(began).Seconds())
	if o.results == "" {
		return nil
	}
	return writeResults(ctx, o.results, report)
}

// startAll gives all that was started, also with an error. The clusters start while the images are made.
func startAll(ctx context.Context, o options) ([]*clusters.Cluster, error) {
	indexes, err := freeIndexes(ctx, o.count)
	if err != nil {
		return nil, err
	}
	started := make([]*clusters.Cluster, o.count)
	all, ctx := errgroup.WithContext(ctx)
	folder, stock := o.images, ""
	all.Go(func() (err error) {
		if folder == "" {
			folder = "bin/images"
			if err := command(ctx, "make", "--no-print-directory", "images").Run(); err != nil {
				return err
			}
		}
		// After the others: most of it is compiled then.
		stock, err = images.MakeStock(ctx, os.Stderr)
		return err
	})
	for i, index := range indexes {
		all.Go(func() (err error) {
			started[i], err = clusters.Start(ctx, clusters.Options{Name: name(index), Index: index, Progress: os.Stderr})
			return err
		})
	}
	err = all.Wait()
	if err == nil {
		err = loadAll(context.WithoutCancel(ctx), started, filepath.Join(folder, "coredns.tar"), filepath.Join(folder, "multicluster-controller.tar"), stock)
	}
	return present(started), err
}

// present leaves out clusters that did not start.
func present(started []*clusters.Cluster) []*clusters.Cluster {
	var all []*clusters.Cluster
	for _, c := range started {
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// freeIndexes are such that no other cluster's addresses are taken.
func freeIndexes(ctx context.Context, count int) ([]int, error) {
	running, err := clusters.List(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, c := range running {
		taken[c.DNS], taken[c.Name] = true, true
	}
	var free []int
	for index := 1; index <= 9 && len(free) < count; index++ {
		if !taken[fmt.Sprintf("10.%d.0.10", 200+index)] && !taken[name(index)] {
			free = append(free, index)
		}
	}
	if len(free) < count {
		return nil, fmt.Errorf("%d clusters run on this machine, and there is room for nine: go run ./test/clusters/run list", len(running))
	}
	return free, nil
}

func loadAll(ctx context.Context, all []*clusters.Cluster, archives ...string) error {
	for _, c := range all {
		for _, archive := range archives {
			if err := c.Load(ctx, archive); err != nil {
				return err
			}
		}
	}
	return nil
}

func end(all []*clusters.Cluster) {
	for _, c := range all {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: end the cluster:", err)
		}
	}
}
