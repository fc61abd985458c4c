package main

import (
	"context"
	"path/filepath"
)

// makeFrom makes the images of the commit that TestUpgrade upgrades from, in a checkout in the scratch folder. Their tag is the commit's. Without a
// commit it gives no folder.
func makeFrom(ctx context.Context, scratch, commit string) (folder string, err error) {
	if commit == "" {
		return "", nil
	}
	folder = filepath.Join(scratch, "from")
	for _, words := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", ".", folder},
		{"git", "-C", folder, "checkout", "--quiet", "--detach", commit},
		{"make", "--no-print-directory", "--directory=" + folder, "images"},
	} {
		if err := command(ctx, words[0], words[1:]...).Run(); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// archivesIn are those that `make images` wrote in a folder.
func archivesIn(folder string) []string {
	return []string{filepath.Join(folder, "coredns.tar"), filepath.Join(folder, "multicluster-controller.tar")}
}
