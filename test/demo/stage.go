package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/clusterset-dns/multicluster/test/ours"
	"github.com/clusterset-dns/multicluster/test/realkube"
)

//go:embed Corefile
var corefile string

// stage is the running parts, and where the story is told.
type stage struct {
	out            io.Writer
	passed, failed int

	cluster *realkube.Cluster
	kubectl string
	dns     string // CoreDNS' address and port
	beside  []*realkube.Beside
}

func (s *stage) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *stage) title(title string) { s.say("\n%s\n", title) }

// part starts one part and says how long that took.
func (s *stage) part(what string, start func() error) error {
	s.say("  %-68s", what+" ...")
	began := time.Now()
	if err := start(); err != nil {
		s.say(" failed\n")
		return fmt.Errorf("%s: %w", what, err)
	}
	s.say(" %4.1f s\n", time.Since(began).Seconds())
	return nil
}

func (s *stage) start(ctx context.Context) error {
	programs, err := realkube.Build(ctx, os.Stderr, "etcd", "kube-apiserver", "kubectl")
	if err != nil {
		return err
	}
	s.kubectl = programs["kubectl"]
	for _, part := range []struct {
		what  string
		start func() error
	}{
		{"starting etcd and kube-apiserver", func() (err error) {
			s.cluster, err = realkube.Start(ctx, realkube.Options{})
			return err
		}},
		{"installing the CRDs of multicluster.x-k8s.io", func() error { return s.cluster.InstallCRDs(ctx, realkube.BothVersions) }},
		{"starting multicluster-controller, with its own account's rights", func() error {
			b, err := ours.StartController(ctx, s.cluster)
			s.beside = append(s.beside, b)
			return err
		}},
		{"starting CoreDNS with the multicluster plugin", func() error {
			b, address, err := ours.StartCoreDNS(ctx, s.cluster, corefile)
			s.beside, s.dns = append(s.beside, b), address
			return err
		}},
	} {
		if err := s.part(part.what, part.start); err != nil {
			return err
		}
	}
	return nil
}

// end ends all parts, the last first.
func (s *stage) end() error {
	for i := len(s.beside) - 1; i >= 0; i-- {
		s.beside[i].Stop()
	}
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Stop()
}

// run runs kubectl and gives its output.
func (s *stage) run(ctx context.Context, args ...string) (string, error) {
	return ours.Kubectl(ctx, s.cluster, args...)
}

// dig is the beginning of a command line that asks CoreDNS.
func (s *stage) dig() string {
	host, port, _ := net.SplitHostPort(s.dns) // which has both
	return fmt.Sprintf("dig @%s -p %s", host, port)
}
