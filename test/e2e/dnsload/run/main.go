// Command run asks a DNS server as fast as it answers (see package dnsload). test/e2e runs it in a
// pod.
//
//	run --server 10.0.0.10:53 --for 5m [--stop FILE] <questions.json >result.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/clusterset-dns/multicluster/test/e2e/dnsload"
)

func main() {
	var o dnsload.Options
	stopFile := flag.String("stop", "", "file whose presence ends the questions before their time is over")
	flag.StringVar(&o.Server, "server", "", "address and port of the server")
	flag.DurationVar(&o.For, "for", time.Minute, "how long to ask")
	flag.DurationVar(&o.Patience, "patience", 5*time.Second, "how long to wait for an answer: glibc's, unless given")
	flag.IntVar(&o.Fresh, "fresh", 28, "how many clients ask over UDP, with a new socket after a few questions")
	flag.IntVar(&o.Kept, "kept", 2, "how many clients ask over UDP, with one socket")
	flag.IntVar(&o.TCP, "tcp", 2, "how many clients ask over TCP")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *stopFile != "" {
		o.Stop = appears(ctx, *stopFile)
	}
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "blast:", err)
		os.Exit(1)
	}
}

// appears is closed once a file is there.
func appears(ctx context.Context, file string) <-chan struct{} {
	there := make(chan struct{})
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := os.Stat(file); err == nil {
				close(there)
				return
			}
		}
	}()
	return there
}

func run(ctx context.Context, o dnsload.Options) error {
	var questions []dnsload.Question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return fmt.Errorf("read the questions from the standard input: %w", err)
	}
	result, err := dnsload.Run(ctx, o, questions)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
