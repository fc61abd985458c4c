package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPort53 starts a program from the image of CoreDNS as the kubelet starts containers: as a user
// other than root that cannot gain privileges (allowPrivilegeEscalation: false), with the
// capabilities of its pod. It must start without any, and listen on port 53 if NET_BIND_SERVICE is
// added. The program is a small one that imports netbind, as the CoreDNS of build/coredns.sh does.
func TestPort53(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("runc needs root here")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Skip("there is no runc (apt-get install runc)")
	}
	root := t.TempDir()
	unpack(t, listenImage(t), root)
	for _, c := range []struct {
		what string
		pod  []string
		port string
		want string
	}{
		{"all dropped, a high port", nil, "1053", "listened"},
		{"all dropped, port 53", nil, "53", "permission denied"},
		{"NET_BIND_SERVICE added, port 53", []string{"CAP_NET_BIND_SERVICE"}, "53", "listened"},
		// If the file capability gave the capability to every user, dropping it would not help.
		{"another capability, port 53", []string{"CAP_CHOWN"}, "53", "permission denied"},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := runIn(t, root, c.pod, "/coredns", c.port); !strings.HasSuffix(got, c.want) {
				t.Errorf("the output is %q, want %q", got, c.want)
			}
		})
	}
}

// listenImage contains build/netbind/testdata/listen instead of CoreDNS, with CoreDNS' capability.
func listenImage(t *testing.T) program {
	t.Helper()
	p := programs("v0.0.0")[0]
	p.script = []string{"go", "build", "-o", filepath.Join(t.TempDir(), "listen"), "./build/netbind/testdata/listen"}
	cmd := exec.CommandContext(t.Context(), p.script[0], p.script[1:]...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0") // The program is of the project's own module.
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	return p
}

// unpack makes the files of the program's image below root, as a container runtime does.
func unpack(t *testing.T, p program, root string) {
	t.Helper()
	img, err := p.image(p.script[3], testRelease, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	forFiles(t, img, func(header *tar.Header, content io.Reader) {
		path := filepath.Join(root, filepath.Clean("/"+header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.Mkdir(path, header.FileInfo().Mode()); err != nil {
				t.Fatal(err)
			}
			return
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, header.FileInfo().Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(file, content); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		for record, value := range header.PAXRecords {
			if attribute, ok := strings.CutPrefix(record, "SCHILY.xattr."); ok {
				if err := unix.Setxattr(path, attribute, []byte(value), 0); err != nil {
					t.Fatalf("set %s of %s: %v", attribute, path, err)
				}
			}
		}
	})
}

// runIn runs a container, with the capabilities as containerd sets them: neither inheritable nor ambient.
func runIn(t *testing.T, root string, pod []string, args ...string) (output string) {
	t.Helper()
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"process": map[string]any{
			"args": args, "cwd": "/", "noNewPrivileges": true,
			"user":         map[string]any{"uid": 65532, "gid": 65532},
			"capabilities": map[string]any{"bounding": pod, "effective": pod, "permitted": pod},
		},
		"root":   map[string]any{"path": root, "readonly": true},
		"mounts": []map[string]any{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux": map[string]any{
			"namespaces": []map[string]any{{"type": "pid"}, {"type": "network"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("port53-%d-%s", os.Getpid(), filepath.Base(filepath.Dir(bundle)))
	cmd := exec.CommandContext(t.Context(), "runc", "--root", filepath.Join(bundle, "state"), "run", "--bundle", bundle, id)
	text, err := cmd.CombinedOutput()
	t.Logf("%s (%v)", text, err)
	return strings.TrimSpace(string(text))
}
