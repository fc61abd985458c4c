// Command readme copies what the make targets wrote into the README, between the lines
//
//	<!-- BEGIN path -->
//	<!-- END -->
//
// of it. It runs from the project's top folder, by `make readme`; a test fails where the README says something else.
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

func main() {
	text, err := os.ReadFile("README.md")
	if err == nil {
		var filled string
		if filled, err = fill(string(text), read("")); err == nil {
			err = os.WriteFile("README.md", []byte(filled), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

var block = regexp.MustCompile(`(?s)<!-- BEGIN (\S+) -->\n.*?<!-- END -->`)

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

// read reads files below a folder that ends in a slash.
func read(folder string) func(string) (string, error) {
	return func(path string) (string, error) {
		content, err := os.ReadFile(folder + path)
		return string(content), err
	}
}
