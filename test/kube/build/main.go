// Command build builds the programs of package kube into the user's cache and prints their paths:
//
//	go run ./test/kube/build [PROGRAM ...]
//
// Unless some are named, those that `make test` needs; package kube lists all (kubelet and kube-scheduler are for whole clusters)
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/clusterset-dns/multicluster/test/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	paths, err := kube.Build(ctx, os.Stderr, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, path := range paths {
		fmt.Println(path)
	}
}
