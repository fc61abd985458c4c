package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

// stubSuite is run if no suite is given: it tests that this command brings everything that a suite needs.
const stubSuite = "test/e2e/testdata/suite"

// suite is a checkout of kubernetes-sigs/mcs-api, whose folder conformance has the public suite of tests.
type suite struct {
	folder string   // full path
	images []string // that its pods run
}

var imageLine = regexp.MustCompile(`\bImage:\s*"([^"]+)"`)

// readSuite finds which images the suite's pods run: they are in its source.
func readSuite(folder string) (suite, error) {
	full, err := filepath.Abs(folder)
	if err != nil {
		return suite{}, err
	}
	files, _ := filepath.Glob(filepath.Join(full, "conformance", "*.go"))
	if len(files) == 0 {
		return suite{}, fmt.Errorf("--suite %s: want a checkout of kubernetes-sigs/mcs-api, with Go files in its folder conformance", folder)
	}
	s := suite{folder: full}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return suite{}, err
		}
		for _, match := range imageLine.FindAllSubmatch(text, -1) {
			s.images = append(s.images, string(match[1]))
		}
	}
	slices.Sort(s.images)
	s.images = slices.Compact(s.images)
	return s, nil
}

// loadImages gives the tools image the names of the suite's images. The suite needs sh, nc, socat, dig and nslookup of them.
func (s suite) loadImages(ctx context.Context, all []*clusters.Cluster) error {
	for _, c := range all {
		for _, image := range s.images {
			if err := c.Tag(ctx, images.Tools, fullName(image)); err != nil {
				return err
			}
		}
	}
	return nil
}

// fullName is an image's name with its registry, as kubelets ask for it.
func fullName(image string) string {
	host, _, found := strings.Cut(image, "/")
	switch {
	case !found:
		return "docker.io/library/" + image
	case host == "localhost" || strings.ContainsAny(host, ".:"):
		return image
	default:
		return "docker.io/" + image
	}
}

// report makes the folder for what the suite writes.
func (s suite) report() (string, error) {
	folder, err := filepath.Abs(filepath.Join("bin", "conformance"))
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return folder, os.MkdirAll(folder, 0o755)
}
