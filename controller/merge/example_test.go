package merge_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
)

// Two clusters export the same name with different ports. The import has both ports, and the
// exports are in conflict.
func ExampleMerge() {
	member := func(cluster string, age time.Duration, port corev1.ServicePort) merge.Member {
		created := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-age))
		return merge.Member{
			Cluster: cluster,
			Export:  merge.TrimExport(&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}),
			Service: merge.TrimService(&corev1.Service{Spec: corev1.ServiceSpec{
				ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, Ports: []corev1.ServicePort{port},
			}}),
		}
	}
	merged := merge.Merge([]merge.Member{
		member("member2", time.Minute, corev1.ServicePort{Name: "metrics", Port: 9090, Protocol: corev1.ProtocolTCP}),
		member("member1", time.Hour, corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}),
	})
	fmt.Println(merged.Clusters, merged.Type)
	for _, port := range merged.Ports {
		fmt.Println(port.Name, port.Port)
	}
	fmt.Println(merged.Reasons)
	// Output:
	// [member1 member2] ClusterSetIP
	// http 80
	// metrics 9090
	// [PortConflict]
}
