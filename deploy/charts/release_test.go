package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterset-dns/multicluster/test/kube/binaries"
)

// TestImagesOfARelease: a chart that is packaged for a release runs the images of that release, unless the values give another tag.
func TestImagesOfARelease(t *testing.T) {
	dir := t.TempDir()
	if _, err := helm(t, "", "", "package", chart, "--destination", dir, "--version", "1.2.3", "--app-version", "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	text, err := helm(t, "", "", "template", release, filepath.Join(dir, "multicluster-1.2.3.tgz"), "--set", "cluster.id=c1")
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range []string{"multicluster-controller", "coredns"} {
		if !strings.Contains(text, "image: registry.invalid/clusterset-dns/"+image+":v1.2.3\n") {
			t.Errorf("%s does not have the release's tag:\n%s", image, text)
		}
	}
}

// TestKubernetesTooOld: Helm refuses API servers older than the oldest that the chart installs on.
func TestKubernetesTooOld(t *testing.T) {
	for version, refused := range map[string]bool{"v1.24.17": true, "v1.25.0-eks-1": false, "v1.25.16": false} {
		_, err := helm(t, "", c1, "template", release, chart, "--values", "-", "--kube-version", version)
		if got := err != nil && strings.Contains(err.Error(), "incompatible with Kubernetes"); got != refused {
			t.Errorf("with %s: %v; want it refused: %t", version, err, refused)
		}
	}
}

// TestIconIsInTheRepository: the chart's icon is a file of this repository, by its address at GitHub.
func TestIconIsInTheRepository(t *testing.T) {
	text, err := os.ReadFile("multicluster/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Icon string }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	path, here := strings.CutPrefix(chart.Icon, "https://raw.githubusercontent.com/clusterset-dns/multicluster/main/")
	if _, err := os.Stat(filepath.Join(binaries.Root(), path)); err != nil || !here {
		t.Errorf("the icon %q: %v", chart.Icon, err)
	}
}
