package dns

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
)

// mountRun mounts an empty folder over /var/run, which is /run on most systems. The mount ends with this process.
func mountRun(t *testing.T) {
	t.Helper()
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

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReplacedWhileOpen holds that a replaced file is put back also while a program has it open: it was not, now and then, when a
// program looked a name up at that moment, and all the tests that came after it failed.
func TestReplacedWhileOpen(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		const path = "/etc/resolv.conf"
		before := read(t, path)
		for _, text := range []string{"nameserver 192.0.2.1\n", "nameserver 192.0.2.2\n"} {
			var reader *os.File
			t.Run(text, func(t *testing.T) {
				replaceFile(t, path, "nameserver 192.0.2.3\n")
				replaceFile(t, path, text)
				if got := read(t, path); got != text {
					t.Errorf("%s is %q; want %q", path, got, text)
				}
				var err error
				if reader, err = os.Open(path); err != nil {
					t.Fatal(err)
				}
			})
			if got := read(t, path); got != before {
				t.Errorf("%s is %q afterwards; want %q", path, got, before)
			}
			_ = reader.Close()
		}
	})
}

// searches lets programs resolve names as in a pod with that search path, by glibc, at the server.
func (w *world) searches(path string) {
	w.Helper()
	replaceFile(w.T, "/etc/resolv.conf", "nameserver "+server+"\nsearch "+path+"\noptions ndots:5\n")
	if _, err := os.Stat("/etc/nsswitch.conf"); err == nil { // slim images have none: glibc then asks DNS by default
		replaceFile(w.T, "/etc/nsswitch.conf", "hosts: files dns\n")
	}
}

// getent gives the first address that a program gets for a name, by glibc and /etc/resolv.conf.
func (w *world) getent(name string) string {
	out, err := exec.CommandContext(w.Context(), "getent", "ahosts", name).Output()
	if err != nil && len(out) == 0 {
		return fmt.Sprint("nothing: ", err)
	}
	address, _, _ := strings.Cut(string(out), " ")
	return address
}

// resolves waits until a program gets that address for a name.
func (w *world) resolves(name, want string) {
	w.Helper()
	w.eventually(name+" is "+want, func() error {
		if got := w.getent(name); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
}

// upstreamIP is where a pod's /etc/resolv.conf leads: the rest of the world.
const upstreamIP = "10.99.0.8"

// upstream knows one name outside of the cluster, and remembers what it was asked.
type upstream struct {
	mu    sync.Mutex
	asked []string
}

func (u *upstream) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	name := r.Question[0].Name
	u.mu.Lock()
	u.asked = append(u.asked, name)
	u.mu.Unlock()
	m := new(dns.Msg).SetRcode(r, dns.RcodeNameError)
	for _, record := range []string{outside + " 30 IN A 192.0.2.1", "1.2.0.192.in-addr.arpa. 30 IN PTR " + outside} {
		rr, _ := dns.NewRR(record)
		if rr.Header().Name != name {
			continue
		}
		m.Rcode = dns.RcodeSuccess
		if rr.Header().Rrtype == r.Question[0].Qtype {
			m.Answer = []dns.RR{rr}
		}
	}
	_ = w.WriteMsg(m)
}

// askedBelow are the names of a zone that it was asked for.
func (u *upstream) askedBelow(zone string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.asked), func(name string) bool { return !dns.IsSubDomain(zone, name) })
}

// startUpstream runs until the test's end. CoreDNS listens on the same port of all addresses: this one is more exact, and wins.
func startUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	for _, network := range []string{"udp", "tcp"} {
		started := make(chan error, 1)
		s := &dns.Server{Net: network, Addr: net.JoinHostPort(upstreamIP, "53"), Handler: u, ReusePort: true, NotifyStartedFunc: func() { started <- nil }}
		go func() {
			if err := s.ListenAndServe(); err != nil {
				started <- err
			}
		}()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return u
}
