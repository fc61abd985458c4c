// Command build builds Karmada's programs for the tests into the user's cache, and prints the paths.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/clusterset-dns/multicluster/test/interop/karmada"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	paths, err := karmada.Programs.Build(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, path := range paths {
		fmt.Println(path)
	}
	fmt.Fprintf(os.Stderr, "Karmada's programs are built (%.0f s)\n", time.Since(began).Seconds())
}
