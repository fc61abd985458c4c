package peers

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// readKubeconfig returns the client configuration of the current context of a kubeconfig. A Secret
// must not make the controller run a program or read the controller's files, so the kubeconfig has
// to contain all data itself.
//
// insecure-skip-tls-verify is allowed. Users with permission to write these Secrets decide which
// servers to trust. They set the field explicitly, and could also use any server with their own
// certificate. For a server whose certificate has another name, tls-server-name is better.
func readKubeconfig(text []byte) (*rest.Config, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("the Secret has no key %s", kubeconfigKey)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("invalid kubeconfig: %w", err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %q, which is its current-context", config.CurrentContext)
	}
	if cluster := config.Clusters[context.Cluster]; cluster != nil && cluster.CertificateAuthority != "" {
		return nil, errors.New("the kubeconfig contains certificate-authority, which is not permitted: use certificate-authority-data")
	}
	if user := config.AuthInfos[context.AuthInfo]; user != nil {
		if err := inline(user); err != nil {
			return nil, err
		}
	}
	found, err := clientcmd.NewNonInteractiveClientConfig(*config, config.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	return found, nil
}

// exposureOf returns the end of a message about a connection that is not safe, or "".
func exposureOf(config *rest.Config) string {
	server, _, err := rest.DefaultServerUrlFor(config)
	switch {
	case err == nil && server.Scheme != "https":
		return ". The connection is not encrypted: everybody on the way can read its token. Use https"
	case config.Insecure:
		return ". The certificate of the server is not verified (insecure-skip-tls-verify): whoever stands in between gets the token. Use certificate-authority-data"
	}
	return ""
}

// inline returns an error if the kubeconfig does not contain all credentials of a user.
func inline(user *api.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return errors.New("the kubeconfig contains exec, which is not permitted: use the token of a service account")
	case user.AuthProvider != nil:
		return errors.New("the kubeconfig contains auth-provider, which is not permitted: use the token of a service account")
	case user.TokenFile != "":
		return errors.New("the kubeconfig contains tokenFile, which is not permitted: use token")
	case user.ClientCertificate != "":
		return errors.New("the kubeconfig contains client-certificate, which is not permitted: use client-certificate-data")
	case user.ClientKey != "":
		return errors.New("the kubeconfig contains client-key, which is not permitted: use client-key-data")
	}
	return nil
}
