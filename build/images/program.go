package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

const (
	// noRegistry cannot exist (RFC 2606, section 2), so that no stranger can publish images under
	// these names.
	noRegistry = "registry.invalid/clusterset-dns"
	source     = "https://github.com/clusterset-dns/multicluster"
	licence    = "Apache-2.0"
	// user is the user that many images use for "nobody". It is numeric: Kubernetes cannot tell
	// from a name that the user is not root.
	user = "65532:65532"
)

// program is one that images are made of. The Dockerfiles say the same once more; a test compares them.
type program struct {
	name   string // of the image
	title  string
	binary string // its path in the image, and the entrypoint
	script []string
	ports  []string
	// capability is the file capability, as setcap(8) writes it. See package netbind for the reason
	// for +p.
	capability string
}

// programs are those that images are made of.
func programs(coredns string) []program {
	return []program{
		{
			name:   "coredns",
			title:  "CoreDNS with the plugin multicluster",
			binary: "coredns",
			script: []string{"build/coredns.sh", coredns},
			ports:  []string{"53/tcp", "53/udp"},

			capability: "cap_net_bind_service=+p",
		},
		{
			name:   "multicluster-controller",
			title:  "The controller that carries Services between clusters",
			binary: "multicluster-controller",
			script: []string{"build/controller.sh"},
		},
	}
}

// build makes the program for Linux on an architecture.
func (p program) build(ctx context.Context, path, version, architecture string) error {
	cmd := exec.CommandContext(ctx, p.script[0], append(p.script[1:], path)...) //nolint:gosec // one of the scripts above
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+architecture, "VERSION="+version)
	// Progress goes to standard error. Only the table goes to standard output.
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s for %s: %w", p.script[0], architecture, err)
	}
	return nil
}

// references are the image's names, the exact one first.
func (p program) references(r release) []string {
	repository := r.registry + "/" + p.name
	references := []string{repository + ":" + r.version}
	if r.version != "latest" {
		references = append(references, repository+":latest")
	}
	return references
}

// labels are those of the Open Container Initiative.
func (p program) labels(version, revision, created string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    p.title,
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.revision": revision,
		"org.opencontainers.image.created":  created,
		"org.opencontainers.image.source":   source,
		"org.opencontainers.image.licenses": licence,
	}
}
