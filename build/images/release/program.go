package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"strings"
)

// infoOf reads the build information of a program in a stream of tar, and closes the stream.
func infoOf(content io.ReadCloser, program string) (*debug.BuildInfo, error) {
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("there is no file %s", program)
		}
		if err != nil {
			return nil, err
		}
		if strings.TrimSuffix(path.Base(header.Name), ".exe") != program {
			continue
		}
		bytes, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		return read(bytes)
	}
}

// infoOfArchive is infoOf for an archive of kubectl-multicluster.
func infoOfArchive(archive string) (*debug.BuildInfo, error) {
	file, err := os.Open(archive) //nolint:gosec // a file of the release
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return infoOf(content, plugin)
}
