package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/controlplane/binaries"
)

// TestSecurityPageNamesItsTests: each test that docs/operations/security.md names exists, and it names each of those here that is about tenants.
func TestSecurityPageNamesItsTests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(binaries.Root(), "docs", "operations", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, match := range regexp.MustCompile("`(Test[A-Za-z]+)`").FindAllStringSubmatch(string(text), -1) {
		named[match[1]] = true
	}
	there := map[string]bool{}
	for _, folder := range []string{"controller", "deploy", "test"} {
		for name := range testsBelow(t, filepath.Join(binaries.Root(), folder), "") {
			there[name] = true
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("docs/operations/security.md names %s, which does not exist", name)
		}
	}
	for name := range testsBelow(t, ".", "tenants_") {
		if of := "TestPoliciesNameTheControllersAccount TestSecurityPageNamesItsTests"; !named[name] && !strings.Contains(of, name) {
			t.Errorf("docs/operations/security.md does not name %s", name)
		}
	}
}

// testsBelow are the names of the tests in a folder and those below it, in files whose names begin so.
func testsBelow(t *testing.T, folder, prefix string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(filepath.Base(path), prefix) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
