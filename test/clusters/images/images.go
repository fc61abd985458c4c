// Package images makes the images that the test clusters' pods use, without a registry: archives in the user's cache folder.
package images

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// Names of the images. A pod has to ask for them with imagePullPolicy IfNotPresent or Never.
const (
	// Pause is the image that containerd starts for the namespaces of a pod.
	Pause = "registry.invalid/clusterset-dns/pause:1"
	// Tools is Debian with sh, getent, nslookup, dig, curl, nc, socat, ip, ps, and our own serve.
	Tools = "registry.invalid/clusterset-dns/tools:1"
)

// Archives are the images' files.
type Archives struct{ Pause, Tools string }

var (
	//go:embed pause/main.go
	pauseSource []byte
	//go:embed serve/main.go
	serveSource []byte
)

// debian is what the tools image is made of.
const (
	suite    = "bookworm"
	included = "bind9-dnsutils,curl,iproute2,netcat-openbsd,procps,socat"
)

var errRoot = errors.New("debootstrap needs root, to make the image's devices and users")

// Make gives the images, and makes those that are not in the user's cache yet.
func Make(ctx context.Context, progress io.Writer) (Archives, error) {
	m, unlock, err := newMaker(ctx, progress, "images")
	if err != nil {
		return Archives{}, err
	}
	defer unlock()
	var all Archives
	if all.Pause, err = m.ensure(ctx, "pause", m.pause, Pause, string(pauseSource), runtime.GOARCH); err != nil {
		return Archives{}, err
	}
	all.Tools, err = m.ensure(ctx, "tools", m.tools, Tools, string(serveSource), suite, included, runtime.GOARCH)
	return all, err
}

// newMaker waits for its turn in a folder: a second process then finds what the first has made.
func newMaker(ctx context.Context, progress io.Writer, folder string) (m maker, unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return m, nil, err
	}
	m = maker{dir: filepath.Join(cache, "clusterset-dns", folder), progress: progress}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return m, nil, err
	}
	unlock, err = kube.LockFolder(ctx, m.dir)
	return m, unlock, err
}

// rootFolder is the folder of an image's content, in a scratch folder.
const rootFolder = "root"

type maker struct {
	dir      string // of the archives
	progress io.Writer
}

// ensure makes an image unless it is there, made of the same things. It is written under another name first: nothing that was cut
// short looks finished.
func (m maker) ensure(ctx context.Context, name string, fill func(context.Context, string) (image, error), of ...string) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	archive := filepath.Join(m.dir, fmt.Sprintf("%s-%.6x.tar", name, sum))
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	m.removeOlder(name)
	began := time.Now()
	scratch, err := os.MkdirTemp(m.dir, name+"-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	content := filepath.Join(scratch, rootFolder)
	if err := os.Mkdir(content, 0o755); err != nil {
		return "", err
	}
	made, err := fill(ctx, content)
	if err != nil {
		return "", fmt.Errorf("make the image %s: %w", made.name, err)
	}
	unfinished, err := made.write(ctx, scratch)
	if err != nil {
		return "", fmt.Errorf("write the image %s: %w", made.name, err)
	}
	_, _ = fmt.Fprintf(m.progress, "made the image %s, once (%.0f s)\n", made.name, time.Since(began).Seconds())
	return archive, os.Rename(unfinished, archive)
}

// removeOlder saves disk space. It also removes unfinished files, because only one process makes
// images at a time.
func (m maker) removeOlder(name string) {
	older, _ := filepath.Glob(filepath.Join(m.dir, name+"-*"))
	for _, archive := range older {
		_ = os.RemoveAll(archive)
	}
}

func (m maker) pause(ctx context.Context, root string) (image, error) {
	made := image{name: Pause, entrypoint: []string{"/pause"}}
	return made, goBuild(ctx, pauseSource, filepath.Join(root, "pause"))
}

// tools lets debootstrap work in mounts of its own: killed, it would leave /proc mounted in the folder.
func (m maker) tools(ctx context.Context, root string) (image, error) {
	made := image{name: Tools}
	if os.Geteuid() != 0 {
		return made, errRoot
	}
	_, _ = fmt.Fprintf(m.progress, "making the image %s, once (about a minute)\n", made.name)
	err := run(ctx, "unshare", "--mount", "--propagation=private", "--", "debootstrap", "--variant=minbase", "--include="+included, suite, root)
	if err != nil {
		return made, err
	}
	return made, goBuild(ctx, serveSource, filepath.Join(root, "usr", "local", "bin", "serve"))
}

// goBuild builds a program of one file, which needs nothing but Go's own library.
func goBuild(ctx context.Context, source []byte, to string) error {
	dir, err := os.MkdirTemp("", "multicluster-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", to, "main.go")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+kube.Flags)
	return explained(build)
}

func run(ctx context.Context, name string, args ...string) error {
	return explained(exec.CommandContext(ctx, name, args...))
}

// explained runs a command, whose words are in the error if it fails.
func explained(command *exec.Cmd) error {
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command.Args, " "), err, output)
	}
	return nil
}
