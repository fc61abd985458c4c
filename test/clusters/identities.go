package clusters

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/test/kube/pki"
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
	ca, err := pki.New(c.Name)
	if err != nil {
		return err
	}
	if err := c.writeServers(ca); err != nil {
		return err
	}
	for _, who := range c.clients() {
		p, err := ca.Client(who.user, who.group)
		if err != nil {
			return err
		}
		if err := c.writeKubeconfig(who.file, ca.PEM(), p); err != nil {
			return err
		}
	}
	c.Config, err = readConfig(c.Kubeconfig)
	return err
}

// writeServers makes the files that the API server and the kubelet read.
func (c *Cluster) writeServers(ca *pki.Authority) error {
	apiserver, err := ca.Server("kube-apiserver", "127.0.0.1", "::1", c.at.node(), c.at.node6(), c.at.api(),
		"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	kubelet, err := ca.Server(c.node(), c.at.node(), c.at.node6(), c.node())
	if err != nil {
		return err
	}
	toKubelet, err := ca.Client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	tokens, err := pki.Key()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"ca.crt":        ca.PEM(),
		"apiserver.crt": apiserver.Cert, "apiserver.key": apiserver.Key,
		"kubelet.crt": kubelet.Cert, "kubelet.key": kubelet.Key,
		"to-kubelet.crt": toKubelet.Cert, "to-kubelet.key": toKubelet.Key,
		"tokens.key": tokens,
	} {
		if err := os.WriteFile(c.path(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) writeKubeconfig(file string, ca []byte, p pki.Pair) error {
	config := api.NewConfig()
	config.Clusters[c.Name] = &api.Cluster{Server: fmt.Sprintf("https://%s:%d", c.at.node(), apiPort), CertificateAuthorityData: ca}
	user := "admin-" + c.Name // kubeconfigs of several clusters are merged, where names have to differ
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificateData: p.Cert, ClientKeyData: p.Key}
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
