package peers

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// target is what a kubeconfig points to.
type target struct {
	config *rest.Config // without a token
	token  string       // "" for none
	// namespace is that of the controller there: that of the context, otherwise that of the account, beside which a controller is installed,
	// otherwise "".
	namespace string
}

// readTarget returns the target of the current context of a kubeconfig, with a token that takes the place of an older one in it. A Secret
// must not make the controller run a program or read the controller's files, so the kubeconfig has
// to contain all data itself.
//
// insecure-skip-tls-verify is allowed. Users with permission to write these Secrets decide which
// servers to trust. They set the field explicitly, and could also use any server with their own
// certificate. For a server whose certificate has another name, tls-server-name is better.
func readTarget(text []byte, token string) (target, error) {
	if len(text) == 0 {
		return target{}, fmt.Errorf("the Secret has no key %s", kubeconfigKey)
	}
	read, err := clientcmd.Load(text)
	if err != nil {
		return target{}, fmt.Errorf("invalid kubeconfig: %w", err)
	}
	context := read.Contexts[read.CurrentContext]
	if context == nil {
		return target{}, fmt.Errorf("the kubeconfig has no context %q, which is its current-context", read.CurrentContext)
	}
	if cluster := read.Clusters[context.Cluster]; cluster != nil && cluster.CertificateAuthority != "" {
		return target{}, errors.New("the kubeconfig contains certificate-authority, which is not permitted: use certificate-authority-data")
	}
	if user := read.AuthInfos[context.AuthInfo]; user != nil {
		if err := inline(user); err != nil {
			return target{}, err
		}
		token, user.Token = newer(user.Token, token), ""
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*read, read.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return target{}, fmt.Errorf("the kubeconfig cannot be used: %w", err)
	}
	of, _ := readClaims(token) // Another kind of token has no namespace.
	return target{config, token, cmp.Or(context.Namespace, of.namespace)}, nil
}

// swapped reports whether a target differs from a former one only by another token of the same account, which has not expired.
func (t target) swapped(was target, now time.Time) bool {
	a, wrongA := readClaims(was.token)
	b, wrongB := readClaims(t.token)
	if wrongA != nil || wrongB != nil || a.account == "" || a.account != b.account || a.namespace != b.namespace || b.expired(now) {
		return false
	}
	return t.namespace == was.namespace && reflect.DeepEqual(t.config, was.config)
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
