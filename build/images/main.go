// Command images makes the archive of an image for each program, as files, with neither a registry nor a container engine:
//
//	bin/make-images [flags] [ARCH]...
//
// `make images` builds it and runs it, from the project's top folder. It is a module of its own: those who import the plugin need nothing of it.
// The programs come from the scripts in build, which the Dockerfiles there run too.
// The same commit and Go release give the same bytes, in any folder of any machine. An archive is an OCI layout, for containerd, skopeo, crane
// and whatever else reads those; with the one file more, manifest.json, that `docker load` and `podman load` read.
//
// More than one architecture makes an index of them, in the same archive: one file to import on any node and one name to push, as a registry
// would have it. What reads manifest.json knows no indexes, and gets the first architecture.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// release is what labels say of the commit that an image is made from, and the registry that the image is named for.
type release struct {
	version, revision, registry string
	created                     time.Time
}

func main() {
	coredns := flag.String("coredns", "", "release of CoreDNS to put the plugin in, such as v1.15.0")
	folder := flag.String("out", "bin/images", "folder of the archives")
	version := flag.String("version", "", "tag of the images, beside latest; that of git describe unless given")
	revision := flag.String("revision", "", "commit for the labels; that of the repository unless given")
	registry := flag.String("registry", noRegistry, "registry and path that the names of the images begin with")
	created := flag.String("created", "", "time for the labels and files, as 2006-01-02T15:04:05Z; the commit's unless given")
	flag.Parse()
	architectures := flag.Args()
	if len(architectures) == 0 {
		architectures = []string{runtime.GOARCH}
	}
	ctx := context.Background()
	r, err := newRelease(ctx, *registry, *version, *revision, *created)
	if err == nil {
		err = makeAll(ctx, r, *coredns, *folder, architectures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// newRelease asks git for what is not given.
func newRelease(ctx context.Context, registry, version, revision, created string) (release, error) {
	var errs []error
	ask := func(given string, args ...string) string {
		if given != "" {
			return given
		}
		output, err := exec.CommandContext(ctx, "git", args...).Output() //nolint:gosec // the arguments are those below
		if err != nil {
			errs = append(errs, fmt.Errorf("git %s (without a repository, give -version, -revision and -created): %w", strings.Join(args, " "), err))
		}
		return strings.TrimSpace(string(output))
	}
	r := release{
		registry: registry,
		version:  ask(version, "describe", "--tags", "--always", "--dirty", "--abbrev=12"),
		revision: ask(revision, "rev-parse", "HEAD"),
	}
	created = ask(created, "show", "--no-patch", "--format=%cI", "HEAD")
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	if _, err := archives.Tag(registry, archives.Programs[0], r.version); err != nil {
		return r, err
	}
	var err error
	r.created, err = time.Parse(time.RFC3339, created)
	r.created = r.created.UTC()
	return r, err
}

// makeAll builds the archive of each program, and prints a table of them.
func makeAll(ctx context.Context, r release, coredns, folder string, architectures []string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // for everybody to read, like all that is built here
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "IMAGE\tARCHITECTURE\tSIZE\tDIGEST")
	for _, p := range programs(coredns) {
		variants, err := p.variants(ctx, r, folder, architectures)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		a, err := newArchive(p.references(r), variants)
		if err != nil {
			return fmt.Errorf("archive of %s: %w", p.name, err)
		}
		if err := a.write(filepath.Join(folder, p.name+".tar")); err != nil {
			return err
		}
		if err := a.describe(table, p.references(r)[0], variants); err != nil {
			return err
		}
	}
	return table.Flush()
}

// variants builds the program and the image of each architecture.
func (p program) variants(ctx context.Context, r release, folder string, architectures []string) ([]v1.Image, error) {
	variants := make([]v1.Image, 0, len(architectures))
	for _, architecture := range architectures {
		path := filepath.Join(folder, p.name+"-"+architecture)
		if err := p.build(ctx, path, r.version, architecture); err != nil {
			return nil, err
		}
		img, err := p.image(path, r, architecture)
		if err := errors.Join(err, os.Remove(path)); err != nil {
			return nil, err
		}
		variants = append(variants, img)
	}
	return variants, nil
}
