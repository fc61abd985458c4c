package simulation

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// shown is a story in a document: "<!-- story export -->", and its text in a block.
var shown = regexp.MustCompile("(?s)(<!-- story (\\S+) -->\n~~~ text\n)(.*?)(~~~\n)")

// TestDocuments: the stories that documents show are those of testdata. With -update they are written.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		is := shown.ReplaceAllFunc(was, func(block []byte) []byte {
			found++
			parts := shown.FindSubmatch(block)
			story, err := os.ReadFile(filepath.Join("testdata", string(parts[2])+".txt"))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return append(append(append([]byte{}, parts[1]...), story...), parts[4]...)
		})
		switch {
		case string(was) == string(is):
		case *update:
			if err := os.WriteFile(file, is, 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s shows a story that is another one in testdata: go test -run TestDocuments -update", file)
		}
	}
	if found < 5 {
		t.Errorf("the documents show %d stories; want 5", found)
	}
}
