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
)

const resolvConf = "/etc/resolv.conf"

// ownFiles lets the test write what programs read in /var/run, /etc/resolv.conf and /etc/nsswitch.conf, without a change outside. The mounts
// end with this process.
func (w *world) ownFiles() {
	w.Helper()
	run, err := filepath.EvalSymlinks("/var/run") // is /run on most systems
	w.must(err)
	w.must(syscall.Mount("tmpfs", run, "tmpfs", 0, ""))
	for _, path := range []string{resolvConf, "/etc/nsswitch.conf"} {
		if target, err := os.Readlink(path); err == nil { // below /run, maybe, where there is nothing now
			if !filepath.IsAbs(target) {
				target = filepath.Join("/etc", target)
			}
			w.must(os.MkdirAll(filepath.Dir(target), 0o755))
		}
		if _, err := os.Stat(path); err != nil { // or slim images have no nsswitch.conf: glibc then asks DNS by default
			continue
		}
		own := filepath.Join(w.TempDir(), filepath.Base(path))
		write(w.T, own, "hosts: files dns\n")
		w.must(syscall.Mount(own, path, "", syscall.MS_BIND, ""))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// searches lets programs resolve names as in a pod with that search path, by glibc, at the server.
func (w *world) searches(path string) {
	w.Helper()
	write(w.T, resolvConf, "nameserver "+server+"\nsearch "+path+"\noptions ndots:5\n")
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
