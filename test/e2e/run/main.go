// Command run runs the end-to-end tests: `make e2e`.
//
//	go run ./test/e2e/run [--keep] [--release FOLDER] [--results FILE] [--run PATTERN] [--clusters N] [--from COMMIT]
//	    [--suite CHECKOUT]
//
// It starts clusters on this machine (test/clusters), makes a release and loads its images, and runs `go
// test ./test/e2e`. Then it ends everything that it started, also after a failure or Ctrl-C. With
// KUBECONFIGS=a:b set, it starts nothing and uses those clusters, whose DNS it replaces.
// docs/e2e.md describes the requirements, E2E_IMAGES and the other variables, and what stays in the
// clusters.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// name is the name of a cluster that this command starts. Other clusters do not use it.
func name(index int) string { return fmt.Sprintf("e2e%d", index) }

type options struct {
	keep                     bool
	release, results, filter string
	from, suite              string
	count                    int
}

func main() {
	var o options
	flag.BoolVar(&o.keep, "keep", false, "leave the clusters up")
	flag.StringVar(&o.release, "release", "", "folder of a release, whose chart, images and kubectl-multicluster are tested; `make release-dry-run` makes it unless given")
	flag.StringVar(&o.results, "results", "", "file for what the scenarios measured; bin/e2e.txt unless given, or with --run none")
	flag.StringVar(&o.filter, "run", "", "run only the tests that match, as go test's -run does")
	flag.StringVar(&o.from, "from", "", "commit that TestUpgrade upgrades from; without it, that test is skipped")
	flag.StringVar(&o.suite, "suite", "", "checkout of kubernetes-sigs/mcs-api, whose conformance suite TestConformance runs; a stub of it unless given")
	flag.IntVar(&o.count, "clusters", 3, "how many clusters to start")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "e2e: %q is not a flag; see -h\n", flag.Arg(0))
		os.Exit(2)
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
	suite, err := readSuite(cmp.Or(o.suite, stubSuite))
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "multicluster-e2e-run-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var p place
	if list := os.Getenv("KUBECONFIGS"); list != "" {
		if p, err = given(list); err == nil {
			err = p.warn(os.Stdout)
		}
		if err == nil {
			err = makeRelease(ctx, o.release)
		}
	} else {
		started, old, startErr := startAll(ctx, scratch, o)
		if !o.keep {
			defer func() { end(started) }()
		}
		if err = startErr; err == nil {
			err = suite.loadImages(ctx, started)
		}
		if err == nil {
			p, err = made(ctx, scratch, started, old)
		}
	}
	if err != nil {
		return err
	}
	fmt.Printf("KUBECONFIGS=%s (%.0f s)\n", strings.Join(p.kubeconfigs, separator), time.Since(began).Seconds())
	report := filepath.Join(scratch, "report")
	environment, err := o.environment(suite)
	if err != nil {
		return err
	}
	environment = append(append(environment, p.environment...), "KUBECONFIGS="+strings.Join(p.kubeconfigs, separator), "E2E_REPORT="+report)
	if err := test(ctx, o, scratch, environment...); err != nil {
		return err
	}
	fmt.Printf("all of it: %.0f s\n", time.Since(began).Seconds())
	if o.results == "" && o.filter != "" {
		return nil
	}
	return writeResults(ctx, cmp.Or(o.results, "bin/e2e.txt"), report, p.what)
}

// environment is how the tests get the options. They run in a folder of their own, so all paths are full ones.
func (o options) environment(s suite) ([]string, error) {
	folder, err := filepath.Abs(cmp.Or(o.release, ownRelease))
	if err != nil {
		return nil, err
	}
	all := []string{"E2E_RELEASE=" + folder}
	if o.results != "" {
		all = append(all, "E2E_MEASURE=yes")
	}
	if o.suite == "" && os.Getenv("KUBECONFIGS") != "" {
		return all, nil // the stub's images are in clusters of ours only
	}
	results, err := s.report()
	return append(all, "E2E_SUITE="+s.folder, "E2E_SUITE_RESULTS="+results), err
}

// test builds the tests and runs them. All that they write outside of the clusters is in the scratch folder.
func test(ctx context.Context, o options, scratch string, environment ...string) error {
	binary := filepath.Join(scratch, "e2e.test")
	if err := command(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-o", binary, "./test/e2e").Run(); err != nil {
		return err
	}
	args := []string{"-test.v", "-test.timeout=55m", "-test.parallel=5", "-test.skip=^TestUnit"} // those need no clusters: make test runs them
	if o.filter != "" {
		args = append(args, "-test.run="+o.filter)
	}
	cmd := command(ctx, binary, args...)
	cmd.Dir = filepath.Join("test", "e2e")
	cmd.Env = append(append(cmd.Env, "TMPDIR="+scratch), environment...)
	return cmd.Run()
}

// command is a program that ends with the context, and with it all that it has started: it has a process group of its own, which
// a terminal's Ctrl-C does not reach.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+kube.Flags) // also where it is not make that has started us
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// startAll gives all that was started, also with an error. The clusters start while the images are made.
func startAll(ctx context.Context, scratch string, o options) (running []*clusters.Cluster, old string, err error) {
	indexes, err := clusters.FreeIndexes(ctx, o.count, name)
	if err != nil {
		return nil, "", err
	}
	started := make([]*clusters.Cluster, o.count)
	all, ctx := errgroup.WithContext(ctx)
	stock := ""
	all.Go(func() (err error) {
		if err := makeRelease(ctx, o.release); err != nil {
			return err
		}
		// After the others: most of it is compiled then.
		if old, err = makeFrom(ctx, scratch, o.from); err != nil {
			return err
		}
		stock, err = images.MakeStock(ctx)
		return err
	})
	for i, index := range indexes {
		all.Go(func() (err error) {
			started[i], err = clusters.Start(ctx, clusters.Options{Name: name(index), Index: index})
			return err
		})
	}
	err = all.Wait()
	if err == nil {
		// The older first: both have the tag latest, and the last one keeps it.
		archives := append(archivesIn(cmp.Or(o.release, ownRelease)), stock)
		if old != "" {
			archives = append(archivesIn(filepath.Join(old, "bin", "images")), archives...)
		}
		for _, c := range started {
			for _, archive := range archives {
				err = errors.Join(err, c.Load(context.WithoutCancel(ctx), archive))
			}
		}
	}
	running = slices.DeleteFunc(started, func(c *clusters.Cluster) bool { return c == nil }) // did not start
	return running, old, err
}

// makeFrom makes the images of the commit that TestUpgrade upgrades from, in a checkout in the scratch folder. Their tag is the commit's. Without a
// commit it gives no folder.
func makeFrom(ctx context.Context, scratch, commit string) (folder string, err error) {
	if commit == "" {
		return "", nil
	}
	folder = filepath.Join(scratch, "from")
	for _, words := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", ".", folder},
		{"git", "-C", folder, "checkout", "--quiet", "--detach", commit},
		{"make", "--no-print-directory", "--directory=" + folder, "images"},
	} {
		if err := command(ctx, words[0], words[1:]...).Run(); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// archivesIn are those that `make images` wrote in a folder.
func archivesIn(folder string) []string {
	return []string{filepath.Join(folder, "coredns.tar"), filepath.Join(folder, "multicluster-controller.tar")}
}

// ownRelease is the folder of the release that makeRelease makes.
const ownRelease = "bin/release"

// makeRelease makes a release for this machine's architecture, unless one is given.
func makeRelease(ctx context.Context, given string) error {
	if given != "" {
		return nil
	}
	cmd := command(ctx, "make", "--no-print-directory", "release-dry-run", "VERSION=v0.0.0-e2e", "ARCH="+runtime.GOARCH)
	cmd.Env = append(cmd.Env, "SYSTEMS="+runtime.GOOS+"/"+runtime.GOARCH)
	return cmd.Run()
}

func end(all []*clusters.Cluster) {
	for _, c := range all {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: end the cluster:", err)
		}
	}
}
