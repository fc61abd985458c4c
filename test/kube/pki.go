package kube

import (
	"os"
	"path/filepath"

	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

// identities are the files that the API server reads, by their names in the cluster's folder, and what clients need.
type identities struct {
	ca    []byte
	admin pki.Pair
}

// writeIdentities makes everything that proves who is who in a new cluster.
func writeIdentities(dir string) (identities, error) {
	ca, err := pki.New("kube")
	if err != nil {
		return identities{}, err
	}
	server, err := ca.Server("kube-apiserver", "127.0.0.1", "::1", "localhost", "kubernetes.default.svc")
	if err != nil {
		return identities{}, err
	}
	admin, err := ca.Client("admin", "system:masters")
	if err != nil {
		return identities{}, err
	}
	tokens, err := pki.Key()
	if err != nil {
		return identities{}, err
	}
	return identities{ca.PEM(), admin}, writeFiles(dir, map[string][]byte{
		"ca.crt": ca.PEM(), "server.crt": server.Cert, "server.key": server.Key, "tokens.key": tokens,
	})
}

func writeFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
