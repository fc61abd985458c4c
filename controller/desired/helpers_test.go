package desired_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// demo is the name that the clusters of these tests export.
var demo = types.NamespacedName{Namespace: "shop", Name: "demo"}

var noon = metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

func terms() *merge.ServiceSpec {
	return &merge.ServiceSpec{
		Type: mcsv1beta1.ClusterSetIP, Affinity: corev1.ServiceAffinityNone, InternalPolicy: corev1.ServiceInternalTrafficPolicyCluster,
		Families: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
