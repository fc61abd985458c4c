package peers

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/clusterset-dns/multicluster/internal/lenient"
)

// clusterProfile contains the fields that are read from a ClusterProfile of the Cluster Inventory
// API (KEP-4322). The Go module of that API, sigs.k8s.io/cluster-inventory-api, was not available
// when this was written. It also contains code that runs credential plugins. This package never
// runs one: a profile gives an address, and the Secret gives the credentials.
type clusterProfile struct {
	lenient.Base
	Status struct {
		Properties []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"properties"`
		AccessProviders []accessProvider `json:"accessProviders"`
		// CredentialProviders is the older name of AccessProviders, in v1alpha1 only.
		CredentialProviders []accessProvider `json:"credentialProviders"`
	} `json:"status"`
}

type accessProvider struct {
	Name    string         `json:"name"`
	Cluster profileCluster `json:"cluster"`
}

// profileCluster has the fields of a cluster in a kubeconfig.
type profileCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	CAFile        string `json:"certificate-authority"`
	CAData        string `json:"certificate-authority-data"` // in base64
	ProxyURL      string `json:"proxy-url"`
}

// DeepCopyObject implements runtime.Object. It returns a shallow copy, because a profile that was
// read is never changed.
func (c *clusterProfile) DeepCopyObject() runtime.Object {
	shallow := *c
	return &shallow
}

// profile is the part of a ClusterProfile that is kept.
type profile struct {
	id      string // of the property idProperty; "" without the property
	address address
	fault   string // why there is no address
}

// address is the address of an API server, and how its certificate is verified.
type address struct{ server, serverName, ca, proxy string }

// idProperty is the property of a ClusterProfile that contains the cluster ID (KEP-2149).
const idProperty = "cluster.clusterset.k8s.io"

// The limits of a ClusterProfile. Those that v1alpha2 has are the same there.
const (
	maxProviders  = 64
	maxURL        = 2048
	maxServerName = 253
	maxCA         = 64 << 10 // in base64
	maxIDProperty = 64       // an ID is shorter, so a longer value is not an ID
)

func trimProfile(object any) (profile, bool) {
	read := object.(*clusterProfile)
	var kept profile
	for _, property := range read.Status.Properties {
		if property.Name == idProperty {
			kept.id = property.Value[:min(len(property.Value), maxIDProperty)]
			break
		}
	}
	found, err := read.address()
	if err == nil {
		kept.address = found
	} else {
		kept.fault = err.Error()
	}
	return kept, true
}

// address returns the address of the first access provider, by name, with an https server.
func (c *clusterProfile) address() (address, error) {
	all := c.Status.AccessProviders
	if len(all) == 0 {
		all = c.Status.CredentialProviders
	}
	switch {
	case c.Err != nil:
		return address{}, fmt.Errorf("cannot be decoded: %w", c.Err)
	case len(all) == 0:
		return address{}, errors.New("has no access provider: status.accessProviders must contain one with an https:// server")
	case len(all) > maxProviders:
		return address{}, fmt.Errorf("has %d access providers, the limit is %d", len(all), maxProviders)
	}
	byName := func(a, b accessProvider) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Cluster.Server, b.Cluster.Server))
	}
	for _, provider := range slices.SortedFunc(slices.Values(all), byName) {
		if !isURL(provider.Cluster.Server, "https") {
			continue
		}
		found, err := provider.Cluster.address()
		if err != nil {
			return address{}, fmt.Errorf("has the access provider %.253q, whose %w", provider.Name, err)
		}
		return found, nil
	}
	return address{}, errors.New("has no access provider whose server is an https:// URL")
}

// address checks everything but the server. insecure-skip-tls-verify is refused, unlike in a
// kubeconfig: those who write a profile are not those who trust a server with the token.
func (c *profileCluster) address() (address, error) {
	ca, err := base64.StdEncoding.DecodeString(c.CAData)
	switch {
	case c.Insecure:
		return address{}, errors.New("cluster sets insecure-skip-tls-verify, which is not permitted: set certificate-authority-data")
	case c.CAFile != "":
		return address{}, errors.New("cluster contains certificate-authority, which is not permitted: use certificate-authority-data")
	case len(c.CAData) > maxCA:
		return address{}, fmt.Errorf("certificate-authority-data has %d bytes, the limit is %d", len(c.CAData), maxCA)
	case err != nil:
		return address{}, fmt.Errorf("certificate-authority-data is not base64: %w", err)
	case len(c.TLSServerName) > maxServerName:
		return address{}, fmt.Errorf("tls-server-name has %d bytes, the limit is %d", len(c.TLSServerName), maxServerName)
	case c.ProxyURL != "" && !isURL(c.ProxyURL, "http", "https", "socks5"):
		return address{}, errors.New("proxy-url is not a URL with the scheme http, https or socks5")
	}
	if len(ca) > 0 { // otherwise the authorities of the system count
		if _, err := cert.ParseCertsPEM(ca); err != nil {
			return address{}, fmt.Errorf("certificate-authority-data is not a certificate in PEM: %w", err)
		}
	}
	return address{server: c.Server, serverName: c.TLSServerName, ca: string(ca), proxy: c.ProxyURL}, nil
}

// isURL reports whether a text is a URL with a host, without credentials, and with one of the schemes.
func isURL(text string, schemes ...string) bool {
	if len(text) > maxURL {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && u.User == nil
}

// kubeconfig returns a kubeconfig with the address, and without credentials.
func (a address) kubeconfig() ([]byte, error) {
	const name = "peer"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: a.server, TLSServerName: a.serverName, CertificateAuthorityData: []byte(a.ca), ProxyURL: a.proxy}
	config.AuthInfos[name] = api.NewAuthInfo()
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
