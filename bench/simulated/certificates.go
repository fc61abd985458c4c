package simulated

import (
	"crypto/tls"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/kube/pki"
)

// Certificates are the authority and the server certificate that all Servers of a process share.
type Certificates struct {
	authority []byte // in PEM
	server    tls.Certificate
}

// NewCertificates makes certificates for servers on loopback.
func NewCertificates() (*Certificates, error) {
	ca, err := pki.New("simulated")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Server("kube-apiserver", host)
	if err != nil {
		return nil, err
	}
	server, err := tls.X509KeyPair(pair.Cert, pair.Key)
	return &Certificates{ca.PEM(), server}, err
}

// kubeconfig has a token because real peers have one. It is not a JWT, so that no controller tries to renew it.
func (c *Certificates) kubeconfig(address string) ([]byte, error) {
	const name = "simulated"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: "https://" + address, CertificateAuthorityData: c.authority}
	config.AuthInfos[name] = &api.AuthInfo{Token: name}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
