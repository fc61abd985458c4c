// Command programs builds Prometheus for the tests into the user's cache, and prints the paths.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/clusterset-dns/multicluster/test/monitoring"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Fprintln(os.Stderr, "building prometheus and promtool, unless they are there (about 3 minutes on two cores)")
	prometheus, promtool, err := monitoring.Programs(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(prometheus)
	fmt.Println(promtool)
}
