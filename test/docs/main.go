// Command docs copies what make targets wrote into the documents, between the lines
//
//	<!-- BEGIN path -->
//	<!-- END -->
//
// of README.md, CONTRIBUTING.md and the documents in docs. It runs from the project's top folder, by `make readme`. A test fails
// when a document differs from the files.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := fillAll(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// fillAll fills the blocks of all documents.
func fillAll() error {
	files, err := withBlocks(".")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		filled, err := fill(string(text), read("."))
		if err != nil {
			return fmt.Errorf("fill %s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(filled), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var block = regexp.MustCompile(`(?s)<!-- BEGIN (\S+) -->\n.*?<!-- END -->`)

// withBlocks returns README.md, CONTRIBUTING.md and the documents in docs, and in the folders there.
func withBlocks(root string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	deeper, _ := filepath.Glob(filepath.Join(root, "docs", "*", "*.md")) // a pattern that is wrong would be so above
	return append(append(files, deeper...), filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")), err
}

// fill puts the content of each named file into its block.
func fill(text string, read func(path string) (string, error)) (filled string, err error) {
	filled = block.ReplaceAllStringFunc(text, func(old string) string {
		path := block.FindStringSubmatch(old)[1]
		content, rerr := read(path)
		if rerr != nil {
			err = rerr
			return old
		}
		return fmt.Sprintf("<!-- BEGIN %s -->\n```\n%s\n```\n<!-- END -->", path, strings.Trim(content, "\n"))
	})
	return filled, err
}

// read reads files below a folder.
func read(folder string) func(string) (string, error) {
	return func(path string) (string, error) {
		content, err := os.ReadFile(filepath.Join(folder, path))
		return string(content), err
	}
}
