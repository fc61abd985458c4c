package clusters

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigFile is the administrator's, in the cluster's folder.
const kubeconfigFile = "kubeconfig"

// clients have the users and groups that the API server's own roles are bound to: no program has more rights than in the field.
func (c *Cluster) clients() []struct{ file, user, group string } {
	return []struct{ file, user, group string }{
		{kubeconfigFile, "admin", "system:masters"},
		{"controller-manager.kubeconfig", "system:kube-controller-manager", ""},
		{"scheduler.kubeconfig", "system:kube-scheduler", ""},
		{"proxy.kubeconfig", "system:kube-proxy", ""},
		{"kubelet.kubeconfig", "system:node:" + c.node(), "system:nodes"},
	}
}

// writeIdentities makes everything that proves who is who in a new cluster, and sets Config.
func (c *Cluster) writeIdentities() error {
	ca, err := newAuthority(c.Name)
	if err != nil {
		return err
	}
	if err := c.writeServers(ca); err != nil {
		return err
	}
	for _, who := range c.clients() {
		p, err := ca.client(who.user, who.group)
		if err != nil {
			return err
		}
		if err := c.writeKubeconfig(who.file, ca.pem, p); err != nil {
			return err
		}
	}
	c.Config, err = readConfig(c.Kubeconfig)
	return err
}

// writeServers makes the files that the API server and the kubelet read.
func (c *Cluster) writeServers(ca *authority) error {
	apiserver, err := ca.server("kube-apiserver", "127.0.0.1", "::1", c.at.node(), c.at.node6(), c.at.api(),
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	kubelet, err := ca.server(c.node(), c.at.node(), c.at.node6(), c.node())
	if err != nil {
		return err
	}
	toKubelet, err := ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	tokens, err := newKey()
	if err != nil {
		return err
	}
	tokensKey, err := encodeKey(tokens)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"ca.crt":        ca.pem,
		"apiserver.crt": apiserver.cert, "apiserver.key": apiserver.key,
		"kubelet.crt": kubelet.cert, "kubelet.key": kubelet.key,
		"to-kubelet.crt": toKubelet.cert, "to-kubelet.key": toKubelet.key,
		"tokens.key": tokensKey,
	} {
		if err := os.WriteFile(c.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeKubeconfig(file string, ca []byte, p pair) error {
	config := api.NewConfig()
	config.Clusters[c.Name] = &api.Cluster{Server: fmt.Sprintf("https://%s:%d", c.at.node(), apiPort), CertificateAuthorityData: ca}
	user := "admin-" + c.Name // kubeconfigs of several clusters are merged, where names have to differ
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: p.cert, ClientKeyData: p.key}
	config.Contexts[c.Name] = &api.Context{Cluster: c.Name, AuthInfo: user}
	config.CurrentContext = c.Name
	return clientcmd.WriteToFile(*config, c.path(file))
}

func readConfig(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit: the server is ours alone
	return config, nil
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}
