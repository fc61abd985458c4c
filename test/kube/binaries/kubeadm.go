package binaries

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// KubeadmRights are what kubeadm gives to CoreDNS (Kubernetes 1.37), without ours.
const KubeadmRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
  - {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
  - {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: kube-system}]
`

const kubeadmCoreDNS = KubeadmRights + `
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data: {Corefile: COREFILE}
---
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {k8s-app: kube-dns, kubernetes.io/cluster-service: "true", kubernetes.io/name: CoreDNS}
  annotations: {prometheus.io/port: "9153", prometheus.io/scrape: "true"}
spec:
  clusterIP: ADDRESS
  selector: {k8s-app: kube-dns}
  ports:
    - {name: dns, port: 53, protocol: UDP, targetPort: 53}
    - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}
    - {name: metrics, port: 9153, protocol: TCP, targetPort: 9153}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: coredns
  namespace: kube-system
  labels: {k8s-app: kube-dns}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}
  template:
    metadata:
      labels: {k8s-app: kube-dns}
      annotations: {corefile: "HASH"}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      dnsPolicy: Default
      nodeSelector: {kubernetes.io/os: linux}
      tolerations:
        - {key: CriticalAddonsOnly, operator: Exists}
        - {key: node-role.kubernetes.io/control-plane, effect: NoSchedule}
      containers:
        - name: coredns
          image: IMAGE
          imagePullPolicy: IfNotPresent
          args: [-conf, /etc/coredns/Corefile]
          ports:
            - {name: dns, containerPort: 53, protocol: UDP}
            - {name: dns-tcp, containerPort: 53, protocol: TCP}
            - {name: metrics, containerPort: 9153, protocol: TCP}
            - {name: liveness-probe, containerPort: 8080, protocol: TCP}
            - {name: readiness-probe, containerPort: 8181, protocol: TCP}
          livenessProbe:
            httpGet: {path: /health, port: liveness-probe, scheme: HTTP}
            initialDelaySeconds: 60
            timeoutSeconds: 5
            failureThreshold: 5
          readinessProbe: {httpGet: {path: /ready, port: readiness-probe, scheme: HTTP}}
          resources: {requests: {cpu: 100m, memory: 70Mi}, limits: {memory: 170Mi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}
          volumeMounts: [{name: config-volume, mountPath: /etc/coredns, readOnly: true}]
      volumes: [{name: config-volume, configMap: {name: coredns, items: [{key: Corefile, path: Corefile}]}}]
`

// KubeadmCoreDNS are the objects of a cluster's own CoreDNS as kubeadm installs it, with names, selector, ports and probes of its own. The
// address is where the cluster's pods look for DNS. An annotation starts its pods anew when the Corefile changes, as `kubectl rollout restart` would.
func KubeadmCoreDNS(address, image, corefile string) string {
	return strings.NewReplacer("ADDRESS", address, "IMAGE", image, "COREFILE", fmt.Sprintf("%q", corefile),
		"HASH", fmt.Sprintf("%.6x", sha256.Sum256([]byte(corefile)))).Replace(kubeadmCoreDNS)
}
