package main

import (
	"archive/tar"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// certificates are for what is outside of the cluster: forwarding over TLS, and API servers of other clusters with a public certificate.
// The file is in the repository, not the machine's own bundle: that may hold authorities that only its owner trusts.
//
//go:embed ca-certificates.crt
var certificates []byte

// capabilities are the values of security.capability, as linux/capability.h has it: revision 2, little-endian, no e; the permitted and the
// inheritable capabilities 0 to 31, then both again for the others. NET_BIND_SERVICE is 10.
var capabilities = map[string]string{
	"cap_net_bind_service=+p": "\x00\x00\x00\x02" + "\x00\x04\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00",
}

// image is FROM scratch: one layer, with the program at path and the certificates.
func (p program) image(path string, r release, architecture string) (v1.Image, error) {
	layer, err := p.layer(path, r.created)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "build/images", Created: v1.Time{Time: r.created}}})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture
	if architecture == "arm64" {
		file.Variant = "v8" // as containerd and Docker name it
	}
	file.Created = v1.Time{Time: r.created}
	file.Config = v1.Config{
		User:         user,
		Entrypoint:   []string{"/" + p.binary},
		WorkingDir:   "/",
		Labels:       p.labels(r.version, r.revision, r.created.Format(time.RFC3339)),
		ExposedPorts: map[string]struct{}{},
	}
	for _, port := range p.ports {
		file.Config.ExposedPorts[port] = struct{}{}
	}
	return mutate.ConfigFile(img, file)
}

// layer holds all files of the image.
func (p program) layer(path string, modified time.Time) (v1.Layer, error) {
	binary, err := os.ReadFile(path) //nolint:gosec // what was built just now
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if err := p.writeFiles(&content, binary, modified); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// writeFiles writes files of root, which the image's user may only read: no program replaces itself.
func (p program) writeFiles(to io.Writer, binary []byte, modified time.Time) error {
	w := tar.NewWriter(to)
	add := func(header tar.Header, content []byte) error {
		header.Size, header.ModTime, header.Format = int64(len(content)), modified, tar.FormatPAX
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	program := tar.Header{Name: p.binary, Typeflag: tar.TypeReg, Mode: 0o755}
	if p.capability != "" {
		program.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capabilities[p.capability]}
	}
	err := add(program, binary)
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		err = errors.Join(err, add(tar.Header{Name: folder, Typeflag: tar.TypeDir, Mode: 0o755}, nil))
	}
	err = errors.Join(err, add(tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Typeflag: tar.TypeReg, Mode: 0o644}, certificates))
	return errors.Join(err, w.Close())
}
