package faultproxy

import (
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

var errNoIdentity = errors.New("the identity has neither a token nor, where that can pass, a certificate")

// kubeconfig is a file with everything in it, and no names of other files.
func kubeconfig(of *rest.Config) ([]byte, error) {
	c := rest.CopyConfig(of)
	if err := rest.LoadTLSFiles(c); err != nil {
		return nil, err
	}
	if c.BearerToken == "" && len(c.CertData) == 0 {
		return nil, errNoIdentity
	}
	const here = "fault"
	file := api.NewConfig()
	file.Clusters[here] = &api.Cluster{Server: c.Host, CertificateAuthorityData: c.CAData, TLSServerName: c.ServerName}
	file.AuthInfos[here] = &api.AuthInfo{Token: c.BearerToken, ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}
	file.Contexts[here] = &api.Context{Cluster: here, AuthInfo: here}
	file.CurrentContext = here
	return clientcmd.Write(*file)
}
