// Command bench measures servers side by side, on real parts and one machine: our plugin, CoreDNS' own kubernetes plugin with its option
// multicluster, whoami as the floor, and a plugin that writes ready-made messages as the best possible. All four are one binary. It
// runs from the project's top folder, by `make bench-server`, and writes docs/results/bench.txt and bench.csv.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset-dns/multicluster/bench/server/load"
	"github.com/clusterset-dns/multicluster/bench/server/table"
)

func main() {
	quick := flag.Bool("quick", false, "small and short: shows that it works, and what the figures look like, not what they are")
	out := flag.String("out", "", "the folder to write bench.txt and bench.csv to; docs/results unless given, and none for a quick run")
	only := flag.String("only", "", "measure a part alone: imports, headless or stock")
	flag.Parse()
	log.SetLogger(logr.Discard()) // otherwise client-go logs an unset logger
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := full
	switch {
	case *quick:
		p = small
	case *out == "":
		*out = filepath.Join("docs", "results")
	}
	if err := run(ctx, p, *only, *out); err != nil {
		fmt.Fprintf(os.Stderr, "\nbench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	plan
	program  string // the CoreDNS that has all four plugins
	generate load.Generator
	folder   string // of the loads
	samples  table.Samples
	progress io.Writer
}

func run(ctx context.Context, p plan, only, out string) (err error) {
	b := &bench{plan: p, program: filepath.Join("bin", "coredns-bench"), progress: os.Stderr}
	if b.program, err = filepath.Abs(b.program); err != nil {
		return err
	}
	m, err := look(ctx, b.program)
	if err != nil {
		return err
	}
	b.generate, m.generator = load.Find(ctx)
	if b.folder, err = os.MkdirTemp("", "multicluster-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.folder)) }()
	if err := b.measure(ctx, only); err != nil {
		return errors.Join(err, b.write("", m)) // what was measured until then is still of use, though no result
	}
	return b.write(out, m)
}

func (b *bench) measure(ctx context.Context, only string) error {
	for _, stage := range stages {
		if only != "" && only != stage.name {
			continue
		}
		if err := b.on(ctx, stage); err != nil {
			return fmt.Errorf("%s: %w", stage.name, err)
		}
	}
	return nil
}

// write shows the table, and writes it into the folder unless that is empty.
func (b *bench) write(folder string, m machine) error {
	show := func(w io.Writer) error {
		_, err := fmt.Fprintln(w, m.text(b.plan))
		return errors.Join(err, table.Write(w, b.sections()))
	}
	if err := show(os.Stdout); folder == "" || err != nil {
		return err
	}
	return errors.Join(
		writeFile(filepath.Join(folder, "bench.csv"), b.samples.WriteCSV),
		writeFile(filepath.Join(folder, "bench.txt"), show))
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.progress, format+"\n", args...)
}
