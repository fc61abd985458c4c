package peers

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// readKubeconfig gives the client configuration that the current context of a kubeconfig describes. What a Secret says must not make
// the controller run a program or read its own files: all data has to be in it.
//
// insecure-skip-tls-verify is allowed: who may write Secrets here decides whom to trust, says so in words, and could as well name any
// server with a certificate that they made. A server whose certificate has another name is better reached by tls-server-name.
func readKubeconfig(text []byte) (*rest.Config, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("the Secret has no key %s", kubeconfigKey)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("no kubeconfig: %w", err)
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %q, which is its current one", config.CurrentContext)
	}
	if cluster := config.Clusters[context.Cluster]; cluster != nil && cluster.CertificateAuthority != "" {
		return nil, errors.New("the kubeconfig names a file in certificate-authority: use certificate-authority-data")
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

// inline is an error where a user's credentials are not all in the kubeconfig.
func inline(user *api.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return errors.New("the kubeconfig wants to run a program (exec): use the token of a service account")
	case user.AuthProvider != nil:
		return errors.New("the kubeconfig has an auth-provider: use the token of a service account")
	case user.TokenFile != "":
		return errors.New("the kubeconfig names a file in tokenFile: use token")
	case user.ClientCertificate != "":
		return errors.New("the kubeconfig names a file in client-certificate: use client-certificate-data")
	case user.ClientKey != "":
		return errors.New("the kubeconfig names a file in client-key: use client-key-data")
	}
	return nil
}
