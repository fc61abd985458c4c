package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/clusterset-dns/multicluster/test/clusters"
	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

const separator = string(filepath.ListSeparator)

// place is where the tests run.
type place struct {
	what        string   // for the head of the results
	kubeconfigs []string // full paths: the tests run in a folder of their own
	environment []string // more than this program has
}

// given are clusters that were there before, of a list of kubeconfigs.
func given(list string) (place, error) {
	p := place{what: "clusters given by KUBECONFIGS, asked from this machine"}
	for _, file := range filepath.SplitList(list) {
		full, err := filepath.Abs(file)
		if err != nil {
			return place{}, err
		}
		p.kubeconfigs = append(p.kubeconfigs, full)
	}
	return p, nil
}

// warn prints what happens to the clusters, before it happens. It fails for a kubeconfig that
// cannot be used.
func (p place) warn(out io.Writer) error {
	text := `The tests replace the DNS of these clusters: kube-dns in kube-system, and its CoreDNS. They stay replaced.
docs/e2e.md lists what else changes, what stays, and the way back.
`
	for _, file := range p.kubeconfigs {
		config, err := clientcmd.LoadFromFile(file)
		if err == nil {
			err = clientcmd.ConfirmUsable(*config, "")
		}
		if err != nil {
			return fmt.Errorf("KUBECONFIGS: %s: %w", file, err)
		}
		current := config.Contexts[config.CurrentContext]
		text += fmt.Sprintf("  %s: %s, %s\n", file, config.CurrentContext, config.Clusters[current.Cluster].Server)
	}
	_, err := io.WriteString(out, text)
	return err
}

// made are clusters of ours, which a program can end, and load images into.
func made(ctx context.Context, scratch string, started []*clusters.Cluster, old string) (place, error) {
	program := filepath.Join(scratch, "clusters")
	if err := command(ctx, "go", "build", "-o", program, "./test/clusters/run").Run(); err != nil {
		return place{}, err
	}
	p := place{what: "clusters of one node each, all on this one machine"}
	var fault, load []string
	for _, c := range started {
		p.kubeconfigs = append(p.kubeconfigs, c.Kubeconfig)
		fault = append(fault, program+" fault "+c.Name)
		load = append(load, program+" load "+c.Name)
	}
	p.environment = []string{"E2E_FAULT=" + strings.Join(fault, separator), "E2E_LOAD=" + strings.Join(load, separator),
		"E2E_IMAGES=stock=" + images.Stock + "," + os.Getenv("E2E_IMAGES"), "E2E_FROM=" + old} // a later image wins
	return p, nil
}
