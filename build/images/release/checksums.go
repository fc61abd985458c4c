package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// checksums writes those of all files in the folder, sorted by name.
func (r *release) checksums() error {
	files, err := os.ReadDir(r.folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		sum, err := sumOf(filepath.Join(r.folder, file.Name()))
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&text, "%s  %s\n", sum, file.Name())
	}
	return r.write("checksums.txt", []byte(text.String()))
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // a file of the release
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}
