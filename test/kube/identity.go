package kube

import (
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

// WriteIdentities makes the files of a new cluster that its API server reads (see ServerFlags). The hosts are where clients reach it.
func WriteIdentities(dir, name string, hosts ...string) (*pki.Authority, error) {
	ca, err := pki.New(name)
	if err != nil {
		return nil, err
	}
	server, err := ca.Server("kube-apiserver", append(hosts, "127.0.0.1", "::1", "localhost", "kubernetes.default.svc")...)
	if err != nil {
		return nil, err
	}
	tokens, err := pki.Key()
	if err != nil {
		return nil, err
	}
	return ca, WriteFiles(dir, map[string][]byte{
		"ca.crt": ca.PEM(), "server.crt": server.Cert, "server.key": server.Key, "tokens.key": tokens,
	})
}

// WriteFiles writes files that nobody else may read.
func WriteFiles(dir string, files map[string][]byte) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ClientOf is somebody with a certificate.
func ClientOf(p pki.Pair) *api.AuthInfo {
	return &api.AuthInfo{ClientCertificateData: p.Cert, ClientKeyData: p.Key}
}

// WriteKubeconfig makes a user's way to a cluster's API server: a file of the mode 0600, and the same as a value.
func WriteKubeconfig(path, cluster, server string, ca []byte, user string, who *api.AuthInfo) (*rest.Config, error) {
	file := api.NewConfig()
	add(file, cluster, server, ca, user, who)
	file.CurrentContext = cluster
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return nil, err
	}
	return ReadKubeconfig(path)
}

func add(file *api.Config, cluster, server string, ca []byte, user string, who *api.AuthInfo) {
	file.Clusters[cluster] = &api.Cluster{Server: server, CertificateAuthorityData: ca}
	file.AuthInfos[user] = who
	file.Contexts[cluster] = &api.Context{Cluster: cluster, AuthInfo: user}
}

// ReadKubeconfig gives a kubeconfig's value, without a limit of requests: the server is ours alone.
func ReadKubeconfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Contexts is a kubeconfig of the administrators of several clusters, with a context for each, of the names given.
func Contexts(clusters map[string]*Cluster) *api.Config {
	all := api.NewConfig()
	for name, c := range clusters {
		add(all, name, c.Config.Host, c.Config.CAData, name, ClientOf(pki.Pair{Cert: c.Config.CertData, Key: c.Config.KeyData}))
	}
	return all
}

// identity is somebody's way to the API server, as a value and as a file in the cluster's folder.
func (c *Cluster) identity(name string, who *api.AuthInfo) (*rest.Config, string, error) {
	path := c.kubeconfig(name)
	config, err := WriteKubeconfig(path, "kube", c.Config.Host, c.Config.CAData, name, who)
	return config, path, err
}

func (c *Cluster) kubeconfig(name string) string { return filepath.Join(c.dir, name+".kubeconfig") }
