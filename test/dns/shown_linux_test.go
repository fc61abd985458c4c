package dns

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestEachCorefileShownStarts is for all that users may copy: the files of corefile-examples, and the blocks of the plugin's manual.
// What they answer is for the other tests.
func TestEachCorefileShownStarts(t *testing.T) {
	shown := map[string]string{}
	files, err := filepath.Glob(filepath.Join(binaries.Root(), "corefile-examples", "*.Corefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		shown[filepath.Base(file)] = strings.ReplaceAll(read(t, file), "bind 169.254.20.10", "bind "+server) // a node's, not ours
	}
	for i, text := range manualBlocks(t) {
		shown[fmt.Sprintf("block %d of the manual", i+1)] = text
	}
	if len(files) < 4 || len(shown) < len(files)+4 {
		t.Fatalf("only %d files and %d blocks: are they somewhere else now?", len(files), len(shown)-len(files))
	}
	inNetwork(t, func(w *world) {
		w.writeKubeconfig("member1", "member1", "member2")
		for name, text := range shown {
			w.run(name, func(w *world) {
				if !strings.Contains(text, "clusterset") {
					w.Fatalf("this is not about us:\n%s", text)
				}
				w.coreDNS(text)
			})
		}
	})
}

var block = regexp.MustCompile("(?ms)^~~~ corefile\n(.*?)^~~~$")

func manualBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	for _, found := range block.FindAllStringSubmatch(read(t, filepath.Join(binaries.Root(), "plugin", "README.md")), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// manualBlock is the first block of the manual that has a text.
func manualBlock(t *testing.T, with string) string {
	t.Helper()
	blocks := manualBlocks(t)
	i := slices.IndexFunc(blocks, func(text string) bool { return strings.Contains(text, with) })
	if i < 0 {
		t.Fatalf("the manual has no block with %q", with)
	}
	return blocks[i]
}

// TestManualsChoice is the manual's block with `namespaces`, `labels`, TTLs and `fallthrough`: the other server stands after us, and is
// asked for what we do not have only.
func TestManualsChoice(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(strings.Replace(anImport, "{name: foo}", "{name: public, labels: {visibility: public}}", 1))
		w.apply(strings.Replace(anImport, "{name: foo}", "{name: elsewhere, namespace: kube-public, labels: {visibility: public}}", 1))
		w.coreDNS(edited(manualBlock(t, "fallthrough\n    }\n    forward"), "192.0.2.53", upstreamIP))
		const public = "public.default.svc.clusterset.example.org."
		w.wants(public+" A", "NOERROR 10.0.0.77")
		if ttl := w.ask(public + " A").Answer[0].Header().Ttl; ttl != 60 {
			w.Errorf("the TTL is %d; want 60", ttl)
		}
		w.wants(public+" AAAA", "NOERROR")
		others := []string{"foo.default.svc.clusterset.example.org.", "elsewhere.kube-public.svc.clusterset.example.org."}
		for _, name := range others {
			w.wants(name+" A", "NXDOMAIN")
		}
		if asked := slices.Compact(slices.Sorted(slices.Values(w.upstream.AskedBelow(".")))); !slices.Equal(asked, slices.Sorted(slices.Values(others))) {
			w.Errorf("the other server was asked for %v; want %v", asked, others)
		}
	})
}
