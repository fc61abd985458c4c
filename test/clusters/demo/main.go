// Command demo shows the main job on real parts: two clusters, each of etcd, kube-apiserver, controllers of Kubernetes and
// multicluster-controller, and in one of them CoreDNS with the multicluster plugin, on loopback and without root. It runs from the top
// folder of the project, by `make demo`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	once := flag.Bool("once", false, "end after the last step, instead of staying up to play with")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, *once); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// show starts the parts, tells the story, and ends the parts.
func show(ctx context.Context, once bool) (err error) {
	s := &stage{out: os.Stdout}
	defer func() {
		if ended := s.end(); err == nil {
			err = ended
		}
	}()
	s.say("One name for a Service in every cluster\n")
	if err := s.start(ctx); err != nil {
		return err
	}
	for _, step := range story {
		s.title(step.title)
		if err := step.show(ctx, s); err != nil {
			return err
		}
	}
	if s.failed > 0 {
		return fmt.Errorf("%d of the checks above failed", s.failed)
	}
	s.say("\nAll %d checks are as they should be.\n", s.passed)
	if once {
		return nil
	}
	s.say("\nStill up, to play with:\n\n  export KUBECONFIG=%s\n  %s --context member2 get serviceimports,services,endpointslices\n  %s foo.default.svc.clusterset.local\n\nCtrl-C ends it.\n",
		s.kubeconfig, s.programs["kubectl"], s.dig())
	<-ctx.Done()
	s.say("\nEnding.\n")
	return nil
}
