// Command release makes all files of a release in one folder: `make release-dry-run` runs it, from the project's top folder.
//
//	bin/make-release -version v0.1.0 -registry registry.example.org/team -coredns v1.15.0 [-out bin/release] [ARCH]...
//
// It publishes nothing. .github/workflows/release.yaml pushes and signs what is in the folder. The files:
//
//   - the images, as archives of OCI layouts (`make images` describes them)
//   - the chart, with the version, and with the repositories, tags and digests of these images
//   - the archives of kubectl-multicluster (SYSTEMS selects some), and the manifest for krew
//   - an SBOM of each program (SPDX 2.3), from what the linker wrote into the programs
//   - release-notes.md, from CHANGELOG.md
//   - checksums.txt, which `sha256sum --check` reads
//
// The same commit and Go release give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// release is one version, and the folder of its files.
type release struct {
	version, registry, coredns, folder string
	created                            time.Time // of the commit
}

func main() {
	r := release{}
	flag.StringVar(&r.version, "version", "", "version with the leading v, such as v0.1.0")
	flag.StringVar(&r.registry, "registry", "", "registry and path of the images in the chart")
	flag.StringVar(&r.coredns, "coredns", "", "release of CoreDNS that has the plugin, such as v1.15.0")
	flag.StringVar(&r.folder, "out", "bin/release", "folder of the files; it is deleted first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.make(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// versions are those that Helm and krew take.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func (r *release) make(ctx context.Context, architectures []string) error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("the version %q is no version of a release: make release-dry-run VERSION=v0.0.0-dry-run", r.version)
	}
	if _, err := archives.Tag(r.registry, archives.Programs[0], r.version); err != nil {
		return err
	}
	notes, err := r.changes("CHANGELOG.md") // first: it is the only input that somebody forgets
	if err != nil {
		return err
	}
	if r.created, err = commitTime(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.folder), os.MkdirAll(r.folder, 0o755)); err != nil { //nolint:gosec // for everybody to read
		return err
	}
	if err := r.build(ctx, architectures); err != nil {
		return err
	}
	return r.describe(ctx, notes)
}

func commitTime(ctx context.Context) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the commit, by git log: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// build makes the images and the archives of kubectl-multicluster.
func (r *release) build(ctx context.Context, architectures []string) error {
	images := append([]string{"-coredns", r.coredns, "-registry", r.registry, "-version", r.version, "-out", r.folder}, architectures...)
	if err := r.run(ctx, "bin/make-images", images...); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "multicluster-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	plugin := filepath.Join(scratch, "cli")
	if err := r.run(ctx, "build/cli-dist.sh", plugin); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(plugin, "checksums.txt")); err != nil { // checksums.txt of the release has these files too
		return err
	}
	return os.CopyFS(r.folder, os.DirFS(plugin))
}

// describe makes what is derived from the images and archives in the folder.
func (r *release) describe(ctx context.Context, notes string) error {
	scratch, err := os.MkdirTemp("", "multicluster-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	images := map[string]archives.Archive{}
	values := archives.Values{}
	for _, program := range archives.Programs {
		archive, err := archives.Open(filepath.Join(r.folder, program+".tar"), scratch)
		if err != nil {
			return err
		}
		images[program] = archive
		values[program] = archives.Reference{Repository: r.registry + "/" + program, Digest: archive.Digest.String()}
	}
	if err := r.chart(ctx, "deploy/charts", values, scratch); err != nil {
		return err
	}
	if err := r.sboms(images); err != nil {
		return err
	}
	if err := r.write("release-notes.md", []byte(notes+imageNotes(values))); err != nil {
		return err
	}
	return r.checksums()
}

func (r *release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.folder, name), content, 0o644) //nolint:gosec // for everybody to read
}

// run runs a program of the project, whose output goes to standard error.
func (r *release) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // one of this project
	cmd.Env = append(os.Environ(), "VERSION="+r.version)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", program, err)
	}
	return nil
}
