package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var testRelease = release{registry: noRegistry, version: "v1.2.3", revision: "0123abcd", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

// testImage has a few bytes for a program.
func testImage(t *testing.T, p program, architecture string) v1.Image {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("a program for "+architecture), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := p.image(path, testRelease, architecture)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestImageConfig(t *testing.T) {
	for _, p := range programs("v0.0.0") {
		file, err := testImage(t, p, "arm64").ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := file.Platform().String(); got != "linux/arm64/v8" {
			t.Errorf("%s: the platform is %s", p.name, got)
		}
		if !file.Created.Equal(testRelease.created) {
			t.Errorf("%s: created %s, want the commit's time", p.name, file.Created)
		}
		want := v1.Config{
			User: "65532:65532", Entrypoint: []string{"/" + p.name}, WorkingDir: "/", ExposedPorts: map[string]struct{}{},
			Labels: p.labels("v1.2.3", "0123abcd", "2026-01-02T03:04:05Z"),
		}
		if p.name == "coredns" {
			want.ExposedPorts = map[string]struct{}{"53/udp": {}, "53/tcp": {}}
		}
		if diff := cmp.Diff(want, file.Config); diff != "" {
			t.Errorf("%s: -want +got\n%s", p.name, diff)
		}
	}
}

// TestImageFiles checks that the image contains only the program and the certificates, that the
// image's user can write neither, and which file has the capability.
func TestImageFiles(t *testing.T) {
	type file struct {
		Name       string
		Mode       int64
		Capability string
	}
	for _, p := range programs("v0.0.0") {
		want := []file{{"coredns", 0o755, capabilities["cap_net_bind_service=+p"]}}
		if p.name != "coredns" {
			want = []file{{p.name, 0o755, ""}}
		}
		want = append(want, file{"etc/", 0o755, ""}, file{"etc/ssl/", 0o755, ""}, file{"etc/ssl/certs/", 0o755, ""},
			file{"etc/ssl/certs/ca-certificates.crt", 0o644, ""})
		var got []file
		forFiles(t, testImage(t, p, "amd64"), func(header *tar.Header, _ io.Reader) {
			got = append(got, file{header.Name, header.Mode, header.PAXRecords["SCHILY.xattr.security.capability"]})
			if header.Uid != 0 || header.Gid != 0 || !header.ModTime.Equal(testRelease.created) {
				t.Errorf("%s: %s is of %d:%d, at %s", p.name, header.Name, header.Uid, header.Gid, header.ModTime)
			}
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", p.name, diff)
		}
	}
}

// forFiles walks the image's only layer.
func forFiles(t *testing.T, img v1.Image, each func(*tar.Header, io.Reader)) {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		each(header, r)
	}
}

// TestCertificates checks that each is a certificate authority's, and that none was lost.
func TestCertificates(t *testing.T) {
	var authorities int
	for rest := certificates; ; authorities++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA && certificate.Version == 3 {
			t.Errorf("certificate %d is not that of an authority: %v", authorities, err)
		}
	}
	if want := bytes.Count(certificates, []byte("BEGIN CERTIFICATE")); authorities != want || want < 100 {
		t.Errorf("%d authorities in %d certificates, want all, and at least 100", authorities, want)
	}
}
