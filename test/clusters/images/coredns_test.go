package images

import (
	"os/exec"
	"strings"
	"testing"
)

// TestKubernetesModulesAreThoseOfCoreDNS: with other ones, a CoreDNS with our plugin is not the one that was released; and beside it a stock
// one would have to be compiled from the ground.
func TestKubernetesModulesAreThoseOfCoreDNS(t *testing.T) {
	graph, err := exec.CommandContext(t.Context(), "go", "mod", "graph").Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(graph)) {
		required, ok := strings.CutPrefix(strings.TrimSpace(line), "github.com/coredns/coredns@"+stockVersion+" k8s.io/")
		if module, _, _ := strings.Cut(required, "@"); !ok || module != "api" && module != "apimachinery" && module != "client-go" {
			continue
		}
		module, version, _ := strings.Cut("k8s.io/"+required, "@")
		got, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(got)) != version {
			t.Errorf("%s is %s here, and CoreDNS %s has %s", module, got, stockVersion, version)
		}
		compared++
	}
	if compared != 3 {
		t.Errorf("CoreDNS requires %d of the three modules", compared)
	}
}
