package corefile

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

func installCRDs(t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	if err := c.InstallCRDs(t.Context(), controlplane.BothVersions); err != nil {
		t.Fatal(err)
	}
}

func apply(t *testing.T, c *controlplane.Cluster, text string) {
	t.Helper()
	if err := c.Apply(t.Context(), "default", text); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *controlplane.Cluster, text string) {
	t.Helper()
	if err := c.Delete(t.Context(), "default", text); err != nil {
		t.Fatal(err)
	}
}

func kubectl(t *testing.T, c *controlplane.Cluster, args ...string) string {
	t.Helper()
	out, err := binaries.Kubectl(t.Context(), c, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asClusterCoreDNS lets programs find what a pod of the cluster's own CoreDNS finds, with the rights of a stock one and of
// deploy/plugin/cluster-coredns.
func asClusterCoreDNS(t *testing.T, c *controlplane.Cluster) {
	t.Helper()
	apply(t, c, binaries.KubeadmRights)
	kubectl(t, c, "apply", "-k", "deploy/plugin/cluster-coredns")
	asPod(t, c, "kube-system", "coredns")
}

// asPod lets programs find what a pod of a service account finds: its token, the API server's address, and the DNS servers that
// its node uses: the test's own.
func asPod(t *testing.T, c *controlplane.Cluster, namespace, account string) {
	t.Helper()
	config, _, err := c.ServiceAccount(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	mountRun(t)
	for name, text := range map[string]string{"token": config.BearerToken, "ca.crt": string(config.CAData), "namespace": namespace} {
		write(t, filepath.Join("/var/run/secrets/kubernetes.io/serviceaccount", name), text)
	}
	host, port := hostPort(t, config)
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	replaceFile(t, "/etc/resolv.conf", "nameserver "+upstreamIP+"\n")
}

func hostPort(t *testing.T, config *rest.Config) (host, port string) {
	t.Helper()
	u, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if host, port, err = net.SplitHostPort(u.Host); err != nil {
		t.Fatal(err)
	}
	return host, port
}

var mounted bool

// mountRun mounts an empty folder over /var/run, which is /run on most systems, the first time. The
// mount ends with this process.
func mountRun(t *testing.T) {
	t.Helper()
	if mounted {
		return
	}
	mounted = true
	run, err := filepath.EvalSymlinks("/var/run")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", run, "tmpfs", 0, ""); err != nil {
		t.Fatalf("mount an empty %s: %v", run, err)
	}
}

// replaceFile replaces the content of a system file, for this process and its children.
func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if target, err := os.Readlink(path); err == nil { // to somewhere below /run, maybe, where there is nothing now
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if _, err := os.Stat(target); err != nil {
			write(t, target, text)
			return
		}
	}
	source := filepath.Join(t.TempDir(), filepath.Base(path))
	write(t, source, text)
	if err := syscall.Mount(source, path, "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("replace %s: %v", path, err)
	}
	t.Cleanup(func() {
		// Detached: a program that has the file open just now would keep the mount, and the next one would be made on a file that is gone.
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Errorf("put %s back: %v", path, err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// example is the path of a file in corefile-examples.
func example(name string) string {
	return filepath.Join(binaries.Root(), "corefile-examples", name+".Corefile")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// replaced is a text with one part of it replaced, which has to be there.
func replaced(t *testing.T, text, old, by string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is not there once:\n%s", old, text)
	}
	return strings.Replace(text, old, by, 1)
}

// temporary is the path of a Corefile with a text.
func temporary(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Corefile")
	write(t, path, text)
	return path
}

// start runs CoreDNS with a Corefile until the test's end, and returns once it answers at all, whatever it answers.
func start(t *testing.T, c *controlplane.Cluster, port, corefile string, args ...string) *controlplane.Beside {
	t.Helper()
	program, err := binaries.Program("coredns")
	if err != nil {
		t.Fatalf("run `make coredns` first: %v", err)
	}
	server, err := c.Beside(t.Context(), answersAt(port), program, append([]string{"-conf", corefile}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", corefile, err)
	}
	t.Cleanup(func() {
		server.Stop()
		if text, err := os.ReadFile(server.Log()); t.Failed() && err == nil {
			t.Logf("CoreDNS said:\n%s", text)
		}
	})
	return server
}

// asClientOf lets programs resolve names as in a pod with that search path, by glibc, at the server.
func asClientOf(t *testing.T, search string) {
	t.Helper()
	replaceFile(t, "/etc/resolv.conf", "nameserver "+server+"\nsearch "+search+"\noptions ndots:5\n")
	if _, err := os.Stat("/etc/nsswitch.conf"); err == nil { // slim images have none: glibc then asks DNS by default
		replaceFile(t, "/etc/nsswitch.conf", "hosts: files dns\n")
	}
}

// getent gives the first address that a program gets for a name, by glibc and /etc/resolv.conf.
func getent(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "getent", "ahosts", name).Output()
	if err != nil && len(out) == 0 {
		return fmt.Sprint("nothing: ", err)
	}
	address, _, _ := strings.Cut(string(out), " ")
	return address
}
