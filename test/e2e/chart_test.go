package e2e

import (
	"os"
	"path/filepath"
)

// chartOf is a user's own chart with these templates.
func (s *scene) chartOf(templates map[string]string) string {
	s.t.Helper()
	dir := s.t.TempDir()
	files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: users\nversion: 1.0.0\n"}
	for name, text := range templates {
		files[filepath.Join("templates", name)] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}
