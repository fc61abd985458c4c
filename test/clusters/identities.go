package clusters

import (
	"fmt"
	"path/filepath"

	"github.com/clusterset-dns/multicluster/test/kube"
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
	ca, err := kube.WriteIdentities(c.Dir, c.Name, c.at.node(), c.at.node6(), c.at.api(), "kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local")
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
	if err := kube.WriteFiles(c.Dir, map[string][]byte{
		"kubelet.crt": kubelet.Cert, "kubelet.key": kubelet.Key, "to-kubelet.crt": toKubelet.Cert, "to-kubelet.key": toKubelet.Key,
	}); err != nil {
		return err
	}
	server := fmt.Sprintf("https://%s:%d", c.at.node(), apiPort)
	for _, who := range c.clients() {
		pair, err := ca.Client(who.user, who.group)
		if err != nil {
			return err
		}
		// Kubeconfigs of several clusters are merged, where names have to differ.
		config, err := kube.WriteKubeconfig(c.path(who.file), c.Name, server, ca.PEM(), "admin-"+c.Name, kube.ClientOf(pair))
		if err != nil {
			return err
		}
		if who.file == kubeconfigFile {
			c.Config = config
		}
	}
	return nil
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}
