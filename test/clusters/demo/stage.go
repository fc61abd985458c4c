package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/test/kube"
	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

//go:embed Corefile
var corefile string

// The IDs of the clusters, which are also their contexts in the kubeconfig. The demo looks at
// everything from member2.
const member1, member2 = "member1", "member2"

var members = []string{member1, member2}

// peerTimeout is five minutes unless it is given: long to look at.
const peerTimeout = 10 * time.Second

// stage contains the running parts, and the writer of the output.
type stage struct {
	out            io.Writer
	passed, failed int

	clusters    map[string]*kube.Cluster
	controllers map[string]*kube.Program
	coredns     *kube.Program // of member2
	dns         string        // its address and port

	programs        map[string]string // of Kubernetes, by their names
	dir, kubeconfig string
}

func (s *stage) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

func (s *stage) title(title string) { s.say("\n%s\n", title) }

// part starts one part and prints how long that took.
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
	programs, err := kube.Find(ctx, os.Stderr, "etcd", "kube-apiserver", "kubectl", "controllers")
	if err != nil {
		return err
	}
	s.programs = programs
	s.clusters, s.controllers = map[string]*kube.Cluster{}, map[string]*kube.Program{}
	for _, name := range members {
		if err := s.startMember(ctx, name); err != nil {
			return err
		}
	}
	if err := s.part(member2+": CoreDNS with the multicluster plugin", func() (err error) {
		s.coredns, s.dns, err = binaries.StartCoreDNS(ctx, s.clusters[member2], "coredns", corefile)
		return err
	}); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "demo-"); err != nil {
		return err
	}
	s.kubeconfig = filepath.Join(s.dir, "kubeconfig")
	return clientcmd.WriteToFile(*kube.Contexts(s.clusters), s.kubeconfig)
}

func (s *stage) startMember(ctx context.Context, name string) error {
	for _, part := range []struct {
		what  string
		start func() error
	}{
		{"etcd, kube-apiserver and Kubernetes' controllers", func() (err error) {
			c, err := kube.Start(ctx, kube.Options{Programs: s.programs})
			if err != nil {
				return err
			}
			s.clusters[name] = c
			return c.StartControllers(ctx)
		}},
		{"the CRDs of multicluster.x-k8s.io", func() error {
			return s.clusters[name].InstallCRDs(ctx, kube.BothVersions)
		}},
		{"multicluster-controller, with its own account's rights", func() error {
			return s.startController(ctx, name)
		}},
	} {
		if err := s.part(name+": "+part.what, part.start); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) startController(ctx context.Context, name string) (err error) {
	s.controllers[name], err = binaries.StartController(ctx, s.clusters[name], "--cluster-id="+name, "--probe-peers=false", "--peer-timeout="+peerTimeout.String())
	return err
}

// end ends all parts, the last first.
func (s *stage) end() error {
	s.coredns.Stop()
	var failed []error
	for _, name := range members {
		s.controllers[name].Stop()
		if c := s.clusters[name]; c != nil {
			failed = append(failed, c.Stop())
		}
	}
	if s.dir != "" {
		failed = append(failed, os.RemoveAll(s.dir))
	}
	return errors.Join(failed...)
}

// run runs a program in the project's top folder, for which all clusters are contexts, and gives its output. kubectl finds its plugin.
func (s *stage) run(ctx context.Context, program string, args ...string) (string, error) {
	path := filepath.Dir(s.programs["kubectl"]) + ":" + filepath.Join(binaries.Root(), "bin") + ":" + os.Getenv("PATH")
	return binaries.Run(ctx, []string{"KUBECONFIG=" + s.kubeconfig, "PATH=" + path}, "", program, args...)
}

// get is what kubectl gets in a cluster.
func (s *stage) get(ctx context.Context, cluster string, args ...string) (string, error) {
	return s.run(ctx, s.programs["kubectl"], append([]string{"--context", cluster, "get"}, args...)...)
}

// dig is the beginning of a command line that asks CoreDNS.
func (s *stage) dig() string {
	host, port, _ := net.SplitHostPort(s.dns) // which has both
	return fmt.Sprintf("dig @%s -p %s", host, port)
}
