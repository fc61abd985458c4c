package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/realkube"
)

// stage is the running parts, and where the story is told.
type stage struct {
	out            io.Writer
	passed, failed int

	cluster *realkube.Cluster
	kubectl string
	port    int // of CoreDNS, on 127.0.0.1
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
		{"starting multicluster-controller, with its own account's rights", func() error { return s.startController(ctx) }},
		{"starting CoreDNS with the multicluster plugin", func() error { return s.startCoreDNS(ctx) }},
	} {
		if err := s.part(part.what, part.start); err != nil {
			return err
		}
	}
	return nil
}

// startController runs the controller as deploy/controller would: as its account, with its role.
func (s *stage) startController(ctx context.Context) error {
	if _, err := s.run(ctx, "apply", "-k", "deploy/controller"); err != nil {
		return err
	}
	const namespace, account = "multicluster-system", "multicluster-controller"
	_, kubeconfig, err := s.cluster.ServiceAccount(ctx, namespace, account)
	if err != nil {
		return err
	}
	probes, err := freePort()
	if err != nil {
		return err
	}
	address := fmt.Sprintf("127.0.0.1:%d", probes)
	return s.run1(ctx, listens("tcp", address), "bin/multicluster-controller", "--kubeconfig", kubeconfig,
		"--leader-election-namespace", namespace, "--metrics-bind-address", "0", "--health-probe-bind-address", address)
}

func (s *stage) startCoreDNS(ctx context.Context) (err error) {
	if s.port, err = freePort(); err != nil {
		return err
	}
	corefile, err := os.Create(filepath.Join(filepath.Dir(s.cluster.Kubeconfig), "Corefile"))
	if err != nil {
		return err
	}
	text, err := template.ParseFiles("test/demo/Corefile")
	if err == nil {
		err = text.Execute(corefile, map[string]any{"Port": s.port, "Kubeconfig": s.cluster.Kubeconfig})
	}
	if err := errors.Join(err, corefile.Close()); err != nil {
		return err
	}
	answers := func(context.Context) error {
		_, err := s.exchange("clusterset.local.", dns.TypeSOA)
		return err
	}
	return s.run1(ctx, answers, "bin/coredns", "-conf", corefile.Name())
}

// run1 starts a program of ours beside the cluster.
func (s *stage) run1(ctx context.Context, ready func(context.Context) error, program string, args ...string) error {
	path, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	b, err := s.cluster.Beside(ctx, ready, path, args...)
	if err == nil {
		s.beside = append(s.beside, b)
	}
	return err
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
	cmd := exec.CommandContext(ctx, s.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out), err
}

// freePort is a port of loopback that nobody uses, over UDP and TCP.
func freePort() (int, error) {
	for {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := tcp.Addr().(*net.TCPAddr).Port
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		_ = tcp.Close()
		if err == nil {
			return port, udp.Close()
		}
	}
}

func listens(network, address string) func(context.Context) error {
	return func(context.Context) error {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		return c.Close()
	}
}
