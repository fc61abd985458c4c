package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Needs returns an error that names the packages that are missing on this machine for a purpose of build/needs.sh, which has the lists:
// "network", "test" or "clusters".
func Needs(purpose string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	said, err := exec.Command(filepath.Join(root, "build", "needs.sh"), "-n", purpose).CombinedOutput()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return errors.New(string(bytes.TrimSpace(said)))
	}
	if err != nil {
		return fmt.Errorf("look for what %s needs: %w", purpose, err)
	}
	return nil
}

// IP runs `ip` with each line in turn, until one fails.
func IP(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if output, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, output)
		}
	}
	return nil
}
