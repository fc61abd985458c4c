package peers

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestEachRightOfAPeerIsNeeded removes each verb of the shipped role. Without it the peer is not
// connected, and its condition contains the missing permission. So each verb is necessary.
func TestEachRightOfAPeerIsNeeded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "peer", "clusterrole.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var shipped rbacv1.ClusterRole // without the binding that follows it
	role, _, _ := bytes.Cut(text, []byte("\n---\n"))
	if err := yaml.Unmarshal(role, &shipped); err != nil || len(shipped.Rules) != 2 {
		t.Fatalf("the role is %+v: %v", shipped, err)
	}
	p := newPlace(t)
	c := newCluster(t, &east, "own")
	r := p.read(t)
	for i, rule := range shipped.Rules {
		for j, verb := range rule.Verbs {
			less := shipped.DeepCopy()
			less.Name = fmt.Sprintf("%s-%d-%d", c.id, i, j)
			less.Rules[i].Verbs = slices.Delete(less.Rules[i].Verbs, j, j+1)
			role, err := yaml.Marshal(less)
			if err != nil {
				t.Fatal(err)
			}
			applyTo(t, c.Cluster, "", string(role))
			r.join(c.id, c.reading(less.Name))
			r.is(c.id, Forbidden, verb, rule.Resources[0])
			r.leave(c.id)
		}
	}
	r.join(c.id, kubeconfig(t, c.config))
	r.is(c.id, Connected)
}
