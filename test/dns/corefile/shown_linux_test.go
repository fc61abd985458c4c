package corefile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset-dns/multicluster/test/controlplane"
	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

var (
	block   = regexp.MustCompile("(?ms)^~~~ corefile\n(.*?)^~~~$")
	isReady = regexp.MustCompile(`(?m)^ +ready$`)
)

// TestEachCorefileShownStarts is for all that users may copy: the files of corefile-examples, and the blocks of the plugin's manual.
// What they answer is for the other tests.
func TestEachCorefileShownStarts(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		shown := map[string]string{}
		files, err := filepath.Glob(example("*"))
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

		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		writeKubeconfig(t, c, "member1", "member1", "member2")
		startUpstream(t)
		for name, text := range shown {
			t.Run(name, func(t *testing.T) {
				if !strings.Contains(text, "clusterset") {
					t.Fatalf("this is not about us:\n%s", text)
				}
				start(t, c, "53", temporary(t, text))
				if isReady.MatchString(text) {
					getsReady(t)
				}
			})
		}
	})
}

func manualBlocks(t *testing.T) (blocks []string) {
	t.Helper()
	for _, found := range block.FindAllStringSubmatch(read(t, filepath.Join(binaries.Root(), "plugin", "README.md")), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// TestManualsChoice is the manual's block with `namespaces`, `labels`, TTLs and `fallthrough`: the other server stands after us, and is
// asked for what we do not have only.
func TestManualsChoice(t *testing.T) {
	controlplane.InNetNS(t, func(t *testing.T) {
		c := controlplane.New(t, controlplane.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		outside := startUpstream(t)
		apply(t, c, anImport)
		apply(t, c, strings.Replace(anImport, "{name: foo}", "{name: public, labels: {visibility: public}}", 1))
		apply(t, c, strings.Replace(anImport, "{name: foo}", "{name: elsewhere, namespace: kube-public, labels: {visibility: public}}", 1))

		blocks := manualBlocks(t)
		i := slices.IndexFunc(blocks, func(text string) bool { return strings.Contains(text, "fallthrough\n    }\n    forward") })
		if i < 0 {
			t.Fatal("the manual has no such block")
		}
		start(t, c, "53", temporary(t, replaced(t, blocks[i], "192.0.2.53", upstreamIP)))
		wants(t, "public.default.svc.clusterset.example.org.", dns.TypeA, "NOERROR 10.0.0.77")
		if m, err := exchange("udp", "53", "public.default.svc.clusterset.example.org.", dns.TypeA); err != nil || m.Answer[0].Header().Ttl != 60 {
			t.Errorf("%v: %v; want a TTL of 60", err, m)
		}
		wants(t, "public.default.svc.clusterset.example.org.", dns.TypeAAAA, "NOERROR")
		others := []string{"foo.default.svc.clusterset.example.org.", "elsewhere.kube-public.svc.clusterset.example.org."}
		for _, name := range others {
			wants(t, name, dns.TypeA, "NXDOMAIN")
		}
		outside.mu.Lock()
		defer outside.mu.Unlock()
		if asked := slices.Compact(slices.Sorted(slices.Values(outside.asked))); !slices.Equal(asked, slices.Sorted(slices.Values(others))) {
			t.Errorf("the other server was asked for %v; want %v", asked, others)
		}
	})
}
