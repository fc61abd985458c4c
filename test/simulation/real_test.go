package simulation

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/apiserver"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// The ranges of all clusters of a story are in these.
var (
	single = kube.Shared{Options: kube.Options{ServiceCIDRs: "10.0.0.0/12"}, Prepare: installCRDs}
	dual   = kube.Shared{Options: kube.Options{ServiceCIDRs: "10.0.0.0/12,fd00:1::/108"}, Prepare: installCRDs}
)

func installCRDs(ctx context.Context, c *kube.Cluster) error {
	return c.InstallCRDs(ctx, kube.OnlyV1Beta1)
}

// without are steps that no kube-apiserver can be asked for: objects that it would not accept, a backup that is restored, and what a webhook
// changes in a write.
var without = regexp.MustCompile(`(?m)^member\d: (forge|restore|mutate)\b`)

// TestWritesLikeAKubeAPIServer makes each write of the stories again in a kube-apiserver, those of each cluster for themselves, and compares the answers, and
// all objects in the end. What faults of a story have refused is left out, and with it what makes no difference to an API server.
func TestWritesLikeAKubeAPIServer(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if without.Match(text) {
				t.Skip("it has steps for which no kube-apiserver can be asked")
			}
			config := single.Cluster(t).Config
			if strings.Contains(string(text), "families=dual") {
				config = dual.Cluster(t).Config
			}
			all := map[string]*apiserver.Recorder{}
			sees := func(s *story) {
				for _, c := range s.clusters {
					all[c.id] = c.server
				}
			}
			if _, err := inBubble(t, 1, string(text), map[any]any{finale{}: sees}); err != nil {
				t.Fatal(err)
			}
			for id, recorder := range all {
				t.Log(id, len(recorder.Writes()), "writes")
				differences, err := apiserver.Replay(t.Context(), config, recorder)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range differences {
					t.Errorf("%s: %s", id, d)
				}
			}
		})
	}
}
