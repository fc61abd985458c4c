package corefile

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/ours"
	"github.com/clusterset-dns/multicluster/test/realkube"
)

var (
	block   = regexp.MustCompile("(?ms)^~~~ corefile\n(.*?)^~~~$")
	isReady = regexp.MustCompile(`(?m)^ +ready$`)
)

// TestEachCorefileShownStarts is for all that users may copy: the files of corefile-examples, and the blocks of the plugin's manual.
// What they answer is for the other tests.
func TestEachCorefileShownStarts(t *testing.T) {
	realkube.InNetNS(t, func(t *testing.T) {
		shown := map[string]string{}
		files, err := filepath.Glob(example("*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			shown[filepath.Base(file)] = read(t, file)
		}
		for i, found := range block.FindAllStringSubmatch(read(t, filepath.Join(ours.Root(), "plugin", "README.md")), -1) {
			shown[fmt.Sprintf("block %d of the manual", i+1)] = found[1]
		}
		if len(files) < 4 || len(shown) < len(files)+4 {
			t.Fatalf("only %d files and %d blocks: are they somewhere else now?", len(files), len(shown)-len(files))
		}

		c := newCluster(t, realkube.Options{})
		installCRDs(t, c)
		asClusterCoreDNS(t, c)
		writeKubeconfig(t, c, "member1", "member2")
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
