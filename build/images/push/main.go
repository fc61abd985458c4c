// Command push pushes the images that `make images` made to a registry: `make push` runs it, from the project's top folder.
//
//	bin/push-images -registry registry.example.org/team -tag v0.1.0 [-check] [-from bin/images]
//
// An archive of several architectures becomes one index. The digests are those of the archives: each registry has the same. It prints a line
// NAME@DIGEST for each image, and writes them into the file values.yaml beside the archives, for `helm install --values`.
//
// The credentials are those of `docker login` or `podman login`. -check only asks the registry whether they permit a push.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

func main() {
	var p pusher
	flag.StringVar(&p.registry, "registry", "", "registry and path that the names of the images begin with")
	flag.StringVar(&p.tag, "tag", "", "tag of the images")
	flag.StringVar(&p.folder, "from", "bin/images", "folder of the archives")
	check := flag.Bool("check", false, "only ask whether the registry takes a push")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := p.push
	if *check {
		do = p.check
	}
	if err := do(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

// pusher pushes all archives of a folder under one tag.
type pusher struct {
	registry, tag, folder string
}

var errUsage = errors.New("give REGISTRY and TAG: make push REGISTRY=registry.example.org/team TAG=v0.1.0")

// reference is the name of a program's image.
func (p pusher) reference(program string) (name.Tag, error) {
	if p.registry == "" || p.tag == "" {
		return name.Tag{}, errUsage
	}
	return archives.Tag(p.registry, program, p.tag)
}

// check fails if the registry does not take images, before minutes are spent on building them.
func (p pusher) check(_ context.Context, _ io.Writer) error {
	for _, program := range archives.Programs {
		tag, err := p.reference(program)
		if err != nil {
			return err
		}
		if err := remote.CheckPushPermission(tag, authn.DefaultKeychain, http.DefaultTransport); err != nil {
			return explained(tag, err)
		}
	}
	return nil
}

// push pushes all images, then writes values.yaml.
func (p pusher) push(ctx context.Context, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "multicluster-push-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	values := archives.Values{}
	for _, program := range archives.Programs {
		tag, err := p.reference(program)
		if err != nil {
			return err
		}
		archive, err := archives.Open(filepath.Join(p.folder, program+".tar"), scratch)
		if err != nil {
			return err
		}
		if err := remote.Push(tag, archive.Content, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return explained(tag, err)
		}
		if _, err := fmt.Fprintf(out, "%s@%s\n", tag.Repository, archive.Digest); err != nil {
			return err
		}
		values[program] = archives.Reference{Repository: tag.Repository.String(), Digest: archive.Digest.String()}
	}
	return os.WriteFile(filepath.Join(p.folder, "values.yaml"), values.YAML(), 0o644) //nolint:gosec // for everybody to read, as the archives
}

// explained adds what to do where the registry refuses the credentials, or has got none.
func explained(tag name.Tag, err error) error {
	var refused *transport.Error
	if errors.As(err, &refused) && (refused.StatusCode == http.StatusUnauthorized || refused.StatusCode == http.StatusForbidden) {
		return fmt.Errorf("push %s: %w: log in with permission to push, by `docker login %s` or `podman login %[3]s`", tag, err, tag.RegistryStr())
	}
	return fmt.Errorf("push %s: %w", tag, err)
}
