package kube

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// doorVariable holds, in the second process of a test, the folder of the shared cluster.
const doorVariable = "REALKUBE_DOOR"

// doorSocket is in that folder. A Unix socket can be reached from every network.
const doorSocket = "door.sock"

// InNetNS is the function InNetNS for a test that needs the cluster of all tests: the API server stays outside, and has its usual address in
// the network too. What the test's own Cluster starts there ends with the test. It can neither stop nor start the API server. A package can have one
// Shared of this kind.
func (s *Shared) InNetNS(t *testing.T, body func(t *testing.T, c *Cluster)) {
	t.Helper()
	if !insideNetNS() {
		c := s.Cluster(t)
		s.door.Do(func() { s.doorErr = c.openDoor() })
		if s.doorErr != nil {
			t.Fatalf("let other networks in: %v", s.doorErr)
		}
	}
	InNetNS(t, func(t *testing.T) {
		t.Helper()
		c, err := s.enter(t, os.Getenv(doorVariable))
		if err != nil {
			t.Fatalf("reach the cluster outside: %v", err)
		}
		body(t, c)
	})
}

// openDoor lets other networks in, as long as this process lives.
func (c *Cluster) openDoor() error {
	listener, err := net.Listen("unix", filepath.Join(c.dir, doorSocket))
	if err != nil {
		return err
	}
	go relay(listener, func() (net.Conn, error) { return net.Dial("tcp", strings.TrimPrefix(c.Config.Host, "https://")) })
	return os.Setenv(doorVariable, c.dir)
}

// enter gives a test's own Cluster, whose API server is that of the cluster in the folder outside.
func (s *Shared) enter(t *testing.T, outside string) (*Cluster, error) {
	c := &Cluster{options: s.Options.withDefaults(), dir: outside}
	admin, err := os.ReadFile(c.kubeconfig("admin"))
	if err != nil {
		return nil, err
	}
	c.dir = t.TempDir()
	c.Kubeconfig = c.kubeconfig("admin")
	if err := os.WriteFile(c.Kubeconfig, admin, 0o600); err != nil {
		return nil, err
	}
	if c.Config, err = ReadKubeconfig(c.Kubeconfig); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", strings.TrimPrefix(c.Config.Host, "https://"))
	if err != nil {
		return nil, err
	}
	go relay(listener, func() (net.Conn, error) { return net.Dial("unix", filepath.Join(outside, doorSocket)) })
	t.Cleanup(func() { c.proxy.Stop() })
	return c, nil
}

// relay passes connections on. When one side of a connection ends, so does the other.
func relay(listener net.Listener, dial func() (net.Conn, error)) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = from.Close() }()
			to, err := dial()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
			_, _ = io.Copy(from, to)
			_ = to.Close()
		}()
	}
}
