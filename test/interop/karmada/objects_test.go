package karmada

import (
	"fmt"
	"strings"

	"github.com/clusterset-dns/multicluster/test/clusters/images"
)

// crds is the policy of Karmada's documentation that brings its CRDs of the Multi-Cluster Services API to the members.
const crds = `
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata: {name: multicluster-crds}
spec:
  resourceSelectors:
    - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: serviceexports.multicluster.x-k8s.io}
    - {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: serviceimports.multicluster.x-k8s.io}
  placement: {clusterAffinity: {clusterNames: [member1, member2]}}
`

// The texts below are of one object each, and can follow one another.

// policy propagates objects, each such as "v1 Service foo", to a member.
func policy(name, member string, objects ...string) string {
	selectors := ""
	for _, object := range objects {
		of := strings.Fields(object)
		selectors += fmt.Sprintf("    - {apiVersion: %s, kind: %s, name: %s}\n", of[0], of[1], of[2])
	}
	return fmt.Sprintf(`---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: %s, namespace: default}
spec:
  resourceSelectors:
%s  placement: {clusterAffinity: {clusterNames: [%s]}}
`, name, selectors, member)
}

// workload has one pod, which answers HTTP with its host name and member1.
func workload(kind, name string) string {
	return strings.NewReplacer("KIND", kind, "NAME", name, "IMAGE", images.Tools,
		"SERVICE", map[string]string{"StatefulSet": "serviceName: " + name + ", "}[kind]).Replace(`---
apiVersion: apps/v1
kind: KIND
metadata: {name: NAME, namespace: default}
spec: {replicas: 1, SERVICEselector: {matchLabels: {app: NAME}},
  template: {metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: serve,
  image: "IMAGE", imagePullPolicy: IfNotPresent, command: [serve, --http, "8080"], env: [{name: CLUSTER_ID, value: member1}],
  ports: [{name: http, containerPort: 8080}], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}]}}}
`)
}

func service(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\nspec: {selector: {app: %[1]s}, %s}\n", name, spec)
}

const mcs = "multicluster.x-k8s.io/v1alpha1"

func export(name string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: ServiceExport\nmetadata: {name: %s, namespace: default}\n", mcs, name)
}

// imported is an import, which a policy propagates to member2.
func imported(name, kind string, port int) string {
	return fmt.Sprintf(`---
apiVersion: %s
kind: ServiceImport
metadata: {name: %s, namespace: default}
spec: {type: %s, ports: [{name: http, port: %d, protocol: TCP}]}
`, mcs, name, kind, port) + policy(name+"-import", "member2", mcs+" ServiceImport "+name)
}

const toPod = "ports: [{name: http, port: 80, targetPort: 8080}]"

var (
	// foo and db, which is a StatefulSet, run in member1 and are exported there. member2 imports them.
	foo = workload("Deployment", "foo") + service("foo", toPod) + export("foo") +
		policy("foo", "member1", "apps/v1 Deployment foo", "v1 Service foo", mcs+" ServiceExport foo") + imported("foo", "ClusterSetIP", 80)
	db = workload("StatefulSet", "db") + service("db", "clusterIP: None, ports: [{name: http, port: 8080}]") + export("db") +
		policy("db", "member1", "apps/v1 StatefulSet db", "v1 Service db", mcs+" ServiceExport db") + imported("db", "Headless", 8080)

	// web is Karmada's own way: a MultiClusterService, whose Service has the same name in both members.
	web = workload("Deployment", "web") + service("web", toPod) + policy("web", "member1", "apps/v1 Deployment web") + webService

	// webImport exports and imports web beside its MultiClusterService. The first policy keeps the Service in member1 without it.
	webImport = export("web") + policy("web-export", "member1", "v1 Service web", mcs+" ServiceExport web") + imported("web", "ClusterSetIP", 80)
)

const webService = `---
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: web, namespace: default}
spec: {types: [CrossCluster], providerClusters: [{name: member1}], consumerClusters: [{name: member2}]}
`

// client is a pod as any other: its resolver is what the kubelet gives it.
const client = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: client, image: "` + images.Tools + `", imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
`
