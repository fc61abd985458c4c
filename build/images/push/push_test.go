package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/clusterset-dns/multicluster/build/images/archives"
)

// testArchives writes an archive of a random index for two architectures for each program, and returns their digests.
func testArchives(t *testing.T) (folder string, digests map[string]v1.Hash) {
	t.Helper()
	folder, digests = t.TempDir(), map[string]v1.Hash{}
	for _, program := range archives.Programs {
		var index v1.ImageIndex = empty.Index
		for _, architecture := range []string{"amd64", "arm64"} {
			img, err := random.Image(1024, 1)
			if err != nil {
				t.Fatal(err)
			}
			file, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			file.OS, file.Architecture = "linux", architecture
			if img, err = mutate.ConfigFile(img, file); err != nil {
				t.Fatal(err)
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: file.Platform()}})
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[program] = digest
		writeArchive(t, filepath.Join(folder, program+".tar"), index)
	}
	return folder, digests
}

func writeArchive(t *testing.T, path string, index v1.ImageIndex) {
	t.Helper()
	root := t.TempDir()
	written, err := layout.Write(root, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.AppendIndex(index); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	if err := w.AddFS(os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startRegistry returns the address of a registry in this process. Unless the password is "", it requires it of the user "pusher".
func startRegistry(t *testing.T, password string) string {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, given, _ := r.BasicAuth(); given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// login writes the file that `docker login` writes.
func login(t *testing.T, address, password string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("DOCKER_CONFIG", folder)
	auth := base64.StdEncoding.EncodeToString([]byte("pusher:" + password))
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, address, auth)
	if err := os.WriteFile(filepath.Join(folder, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPush: a registry has what the archives have, for both architectures, by the printed digests.
func TestPush(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		folder, digests := testArchives(t)
		address := startRegistry(t, password)
		login(t, address, password)
		p := pusher{registry: address + "/team", tag: "v1.2.3", folder: folder}
		var out strings.Builder
		if err := p.check(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if err := p.push(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		var want string
		for _, program := range archives.Programs {
			reference := address + "/team/" + program + "@" + digests[program].String()
			want += reference + "\n"
			checkPushed(t, reference, reference[:strings.Index(reference, "@")]+":v1.2.3", password)
		}
		if out.String() != want {
			t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
		}
	}
}

// checkPushed reads all of an index by its digest, and wants the tag to be the same.
func checkPushed(t *testing.T, byDigest, byTag, password string) {
	t.Helper()
	reference, err := name.ParseReference(byDigest)
	if err != nil {
		t.Fatal(err)
	}
	as := remote.WithAuth(&authn.Basic{Username: "pusher", Password: password})
	index, err := remote.Index(reference, as)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 || manifest.Manifests[1].Platform.Architecture != "arm64" {
		t.Errorf("%s has %+v, %v; want amd64 and arm64", byDigest, manifest, err)
	}
	tag, err := name.NewTag(byTag)
	if err != nil {
		t.Fatal(err)
	}
	if head, err := remote.Head(tag, as); err != nil || head.Digest.String() != reference.Identifier() {
		t.Errorf("%s is %+v, %v; want %s", tag, head, err, reference.Identifier())
	}
}

// TestPushErrors: each error names the image, and what to do.
func TestPushErrors(t *testing.T) {
	folder, _ := testArchives(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	unreachable, locked := strings.TrimPrefix(gone.URL, "http://"), startRegistry(t, "secret")
	login(t, locked, "wrong")
	for _, c := range []struct {
		what string
		p    pusher
		want []string
	}{
		{"no tag", pusher{registry: locked, folder: folder}, []string{"give REGISTRY and TAG"}},
		{"no registry", pusher{tag: "v1", folder: folder}, []string{"give REGISTRY and TAG"}},
		{"no tag of an image", pusher{registry: locked, tag: "v1+local", folder: folder}, []string{"name the image coredns", "v1+local"}},
		{"no registry of that name", pusher{registry: "https://example.org", tag: "v1", folder: folder}, []string{"https://example.org", "URL"}},
		{"nothing listens", pusher{registry: unreachable, tag: "v1", folder: folder}, []string{"push " + unreachable + "/coredns:v1", "refused"}},
		{"a wrong password", pusher{registry: locked, tag: "v1", folder: folder}, []string{"push " + locked + "/coredns:v1", "docker login " + locked}},
	} {
		for step, do := range map[string]func() error{
			"check": func() error { return c.p.check(t.Context(), t.Output()) },
			"push":  func() error { return c.p.push(t.Context(), t.Output()) },
		} {
			err := do()
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: %v; want it to contain %q", c.what, step, err, want)
				}
			}
		}
	}
}

// TestPushOfWhatIsNotThere: the error names the file and how to make it.
func TestPushOfWhatIsNotThere(t *testing.T) {
	p := pusher{registry: startRegistry(t, ""), tag: "v1", folder: t.TempDir()}
	if err := p.push(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), "coredns.tar (`make images` makes it)") {
		t.Errorf("no archives: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.folder, "coredns.tar"), []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.push(t.Context(), t.Output()); err == nil || !strings.Contains(err.Error(), "read the archive") {
		t.Errorf("a broken archive: %v", err)
	}
}

// TestPushWritesValues: they are values of the chart, for the images that were pushed.
func TestPushWritesValues(t *testing.T) {
	folder, digests := testArchives(t)
	p := pusher{registry: startRegistry(t, "") + "/team", tag: "v1.2.3", folder: folder}
	if err := p.push(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, program := range archives.Programs {
		_, _ = fmt.Fprintf(&want, "%s:\n  image:\n    repository: \"%s/%s\"\n    tag: \"\"\n    digest: %q\n",
			map[string]string{"coredns": "dns", "multicluster-controller": "controller"}[program], p.registry, program, digests[program])
	}
	if string(text) != want.String() {
		t.Errorf("have\n%s\nwant\n%s", text, &want)
	}
}
