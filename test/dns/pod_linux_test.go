package dns

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
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

// musl gives the same by musl, as in images of Alpine.
func (w *world) musl() (first func(name string) string) {
	w.Helper()
	program := filepath.Join(w.TempDir(), "lookup")
	if out, err := exec.CommandContext(w.Context(), "musl-gcc", "-static", "-o", program, "testdata/lookup.c").CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return func(name string) string {
		out, err := exec.CommandContext(w.Context(), program, name).CombinedOutput()
		if err != nil {
			return fmt.Sprintf("nothing: %v: %s", err, out)
		}
		return string(out)
	}
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
