package plan

import (
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPlanIsPure holds the wall of the package's comment: API types, their pure helpers and the standard library's values.
func TestPlanIsPure(t *testing.T) {
	allowed := map[string]bool{
		"cmp": true, "crypto/rand": true, "crypto/sha256": true, "encoding/hex": true, "encoding/json": true, "fmt": true, "maps": true, "net/netip": true, "slices": true, "strings": true,
		"k8s.io/api/core/v1":                      true,
		"k8s.io/api/discovery/v1":                 true,
		"k8s.io/apimachinery/pkg/api/equality":    true,
		"k8s.io/apimachinery/pkg/api/meta":        true,
		"k8s.io/apimachinery/pkg/apis/meta/v1":    true,
		"k8s.io/apimachinery/pkg/types":           true,
		"k8s.io/apimachinery/pkg/util/validation": true,
		"sigs.k8s.io/mcs-api/pkg/apis/v1beta1":    true,

		"github.com/clusterset-dns/multicluster/internal/ownership": true,
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !allowed[path] {
				t.Errorf("%s imports %s: plan decides from values alone; what needs a client, a logger or a clock belongs to the edges", entry.Name(), path)
			}
		}
	}
}
