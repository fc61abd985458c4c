package command

import (
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset-dns/multicluster/cli/clusters"
	"github.com/clusterset-dns/multicluster/cli/explain"
)

// Clusters behind one proxy have one address in the kubeconfig.
func TestExplainReadsAllClustersOfAProxy(t *testing.T) {
	config := api.NewConfig()
	for _, name := range []string{"one", "two", "three"} {
		config.Clusters[name] = &api.Cluster{Server: "https://proxy.example.org", TLSServerName: name}
		config.Contexts[name] = &api.Context{Cluster: name}
	}
	config.CurrentContext = "two"
	path := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &path
	all, err := clusters.Load(t.Context(), flags)
	if err != nil {
		t.Fatal(err)
	}
	q := explain.Question{Unusable: map[string]string{}}
	if err := choose(all, &q); err != nil {
		t.Fatal(err)
	}
	if q.Here.Context != "two" || len(q.Others) != 2 || q.Others[0].Context != "one" || q.Others[1].Context != "three" {
		t.Errorf("asked in %s, and others are %+v", q.Here.Context, q.Others)
	}
}
