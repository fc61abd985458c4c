// Command run asks a DNS server as fast as it answers (see package dnsload), until the time is over or it is interrupted. test/e2e runs it in
// a pod.
//
//	run --server 10.0.0.10:53 --for 5m <questions.json >result.json
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/clusterset-dns/multicluster/test/e2e/dnsload"
)

func main() {
	// Of the clients, most are as the resolvers of programs. They wait as long as glibc.
	o := dnsload.Options{Patience: 5 * time.Second, Fresh: 28, Kept: dnsload.KeptSockets, TCP: 2}
	flag.StringVar(&o.Server, "server", "", "address and port of the server")
	duration := flag.Duration("for", time.Minute, "how long to ask")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *duration)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "dnsload:", err)
		os.Exit(1)
	}
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
