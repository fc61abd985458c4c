package reconcile

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// TestClusterProfilesNeedTheirRole runs the controller with the shipped account. The option makes it read
// ClusterProfiles, which deploy/cluster-profiles permits. The cluster has no CRD for them, which only
// a controller with the permission can find out. Package peers tests the rest.
func TestClusterProfilesNeedTheirRole(t *testing.T) {
	cluster := kube.New(t, kube.Options{})
	if err := prepare(t.Context(), cluster, kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, cluster)
	const system = "multicluster-system"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "member1", Labels: map[string]string{mcs.LabelPeer: ""}},
		Data:       map[string][]byte{"token": []byte("token")},
	}
	if err := p.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	says := func(want string) {
		t.Helper()
		kube.Eventually(t, "the Lease of member1 contains "+want, func() error {
			var lease coordinationv1.Lease
			if err := p.Get(t.Context(), types.NamespacedName{Namespace: system, Name: "member1"}, &lease); err != nil {
				return err
			}
			if text := fmt.Sprint(lease.Annotations); !strings.Contains(text, want) {
				return fmt.Errorf("it has %s", text)
			}
			return nil
		})
	}
	start(t, account(t, cluster), func(o *Options) { o.ClusterID, o.Namespace, o.ClusterProfiles = "home", system, system })
	says("deploy/cluster-profiles")
	objects, err := readObjects("../cluster-profiles/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := p.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	says("does not serve ClusterProfiles")
}
