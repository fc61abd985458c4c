package karmada

import (
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

// foo runs in member1 and is exported there. A policy propagates all of it.
const foo = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: foo, namespace: default}
spec: {replicas: 1, selector: {matchLabels: {app: foo}}, POD}
---
apiVersion: v1
kind: Service
metadata: {name: foo, namespace: default}
spec: {selector: {app: foo}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: foo, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: foo, namespace: default}
spec:
  resourceSelectors:
    - {apiVersion: apps/v1, kind: Deployment, name: foo}
    - {apiVersion: v1, kind: Service, name: foo}
    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: foo}
  placement: {clusterAffinity: {clusterNames: [member1]}}
`

// fooImport is imported by member2.
const fooImport = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: foo, namespace: default}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: foo-import, namespace: default}
spec:
  resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, name: foo}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
`

// db is a StatefulSet of member1, imported by member2.
const db = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec: {replicas: 1, serviceName: db, selector: {matchLabels: {app: db}}, POD}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: default}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: http, port: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: db, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: db, namespace: default}
spec:
  resourceSelectors:
    - {apiVersion: apps/v1, kind: StatefulSet, name: db}
    - {apiVersion: v1, kind: Service, name: db}
    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: db}
  placement: {clusterAffinity: {clusterNames: [member1]}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: db, namespace: default}
spec: {type: Headless, ports: [{name: http, port: 8080, protocol: TCP}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: db-import, namespace: default}
spec:
  resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, name: db}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
`

// web is Karmada's own way: a MultiClusterService, whose Service has the same name in both members.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {replicas: 1, selector: {matchLabels: {app: web}}, POD}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: default}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
---` + webService

const webService = `
apiVersion: networking.karmada.io/v1alpha1
kind: MultiClusterService
metadata: {name: web, namespace: default}
spec: {types: [CrossCluster], providerClusters: [{name: member1}], consumerClusters: [{name: member2}]}
`

// webImport exports and imports web beside its MultiClusterService. The first policy keeps the Service in member1 without it.
const webImport = `
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceExport
metadata: {name: web, namespace: default}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web-export, namespace: default}
spec:
  resourceSelectors:
    - {apiVersion: v1, kind: Service, name: web}
    - {apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, name: web}
  placement: {clusterAffinity: {clusterNames: [member1]}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ServiceImport
metadata: {name: web, namespace: default}
spec: {type: ClusterSetIP, ports: [{name: http, port: 80, protocol: TCP}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web-import, namespace: default}
spec:
  resourceSelectors: [{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, name: web}]
  placement: {clusterAffinity: {clusterNames: [member2]}}
`

// pod answers HTTP with its host name and member1.
const pod = `template: {metadata: {labels: {app: NAME}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: serve,
  image: "IMAGE", imagePullPolicy: IfNotPresent, command: [serve, --http, "8080"], env: [{name: CLUSTER_ID, value: member1}],
  ports: [{name: http, containerPort: 8080}], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}]}}`

// withPod completes the text of an application.
func withPod(name, text string) string {
	return strings.Replace(text, "POD", strings.NewReplacer("NAME", name, "IMAGE", images.Tools).Replace(pod), 1)
}

// client is a pod as any other: its resolver is what the kubelet gives it.
const client = `
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: default}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: client, image: "` + images.Tools + `", imagePullPolicy: IfNotPresent, command: [sleep, infinity]}]
`
