package kube

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// writeAdmin sets Config and Kubeconfig.
func (c *Cluster) writeAdmin() (err error) {
	c.Config, c.Kubeconfig, err = c.identity("admin", api.AuthInfo{
		ClientCertificateData: c.ids.admin.Cert, ClientKeyData: c.ids.admin.Key,
	})
	return err
}

// identity is somebody's way to the API server, as a value and as a file of the mode 0600 in the cluster's folder.
func (c *Cluster) identity(name string, who api.AuthInfo) (*rest.Config, string, error) {
	const here = "kube"
	file := api.NewConfig()
	file.Clusters[here] = &api.Cluster{Server: fmt.Sprintf("https://127.0.0.1:%d", c.port), CertificateAuthorityData: c.ids.ca}
	file.AuthInfos[name] = &who
	file.Contexts[here] = &api.Context{Cluster: here, AuthInfo: name}
	file.CurrentContext = here

	path := filepath.Join(c.dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return nil, "", err
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		return nil, "", err
	}
	config.QPS = -1 // no limit: the server is ours alone
	return config, path, nil
}

// Contexts is a kubeconfig of the administrators of several clusters, with a context for each, of the names given.
func Contexts(clusters map[string]*Cluster) *api.Config {
	all := api.NewConfig()
	for name, c := range clusters {
		all.Clusters[name] = &api.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.ids.ca}
		all.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: c.ids.admin.Cert, ClientKeyData: c.ids.admin.Key}
		all.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	}
	return all
}
