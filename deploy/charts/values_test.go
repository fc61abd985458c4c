package charts

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// c1 are the values that every release needs.
const c1 = "cluster: {id: c1}\n"

const (
	controllerPod = "Deployment/multicluster-controller spec.template."
	serverPod     = "Deployment/multicluster-dns spec.template."
	args          = controllerPod + "spec.containers.0.args"
	serverText    = "ConfigMap/multicluster-dns data.Corefile"
	clusterPod    = "Deployment/coredns spec.template."
	clusterText   = "ConfigMap/coredns data.Corefile"
)

const (
	// perZone is a constraint of the topology.
	perZone = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}"
	// chartsLabels are those that the chart gives to its own objects.
	chartsLabels = "{app.kubernetes.io/instance: a, app.kubernetes.io/managed-by: a, app.kubernetes.io/part-of: a, helm.sh/chart: a}"
)

// flags are the controller's arguments, in JSON, with more after those of cluster c1.
func flags(more ...string) string {
	all := append([]string{"--leader-elect", "--metrics-bind-address=:8080", "--health-probe-bind-address=:8081", "--cluster-id=c1"}, more...)
	return `["` + strings.Join(all, `","`) + `"]`
}

// secondServer is the second server's Corefile, in JSON, with lines that stand in the plugin's block, and more after it.
func secondServer(options, more string) string {
	if !strings.Contains(options, "ready_timeout") {
		options = strings.TrimPrefix(options+"\nready_timeout 24h", "\n")
	}
	options = " {" + strings.ReplaceAll("\n"+options, "\n", "\n        ") + "\n    }"
	return fmt.Sprintf("%q", "clusterset.local {\n    errors\n    bufsize 1232\n    health {\n        lameduck 5s\n    }\n    ready\n    multicluster"+
		options+"\n    prometheus :9153\n"+more+"    reload\n    loadbalance\n}\n")
}

// clusterServer is that of the cluster's own server, with what differs from the stock one.
func clusterServer(edits ...string) string {
	const stock = ".:53 {\n    errors\n    health {\n        lameduck 5s\n    }\n    ready\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n" +
		"        pods insecure\n        fallthrough in-addr.arpa ip6.arpa\n        ttl 30\n    }\n    multicluster clusterset.local\n    prometheus :9153\n" +
		"    forward . /etc/resolv.conf {\n        max_concurrent 1000\n    }\n    cache 30 {\n        disable success cluster.local\n        disable denial cluster.local\n" +
		"    }\n    loop\n    reload\n    loadbalance\n}\n"
	return fmt.Sprintf("%q", strings.NewReplacer(edits...).Replace(stock))
}

// otherPorts are upstreams of which most are asked on other ports than 53.
const otherPorts = "'tls://192.0.2.1', '192.0.2.2:5353', 'tls://[2001:db8::1%dns.example]:8853', '192.0.2.3', '2001:db8::2', 'https://192.0.2.4', " +
	"'tls://192.0.2.5%dns.example', 'dns.example:5354', '192.0.2.6:5353', '/etc/resolv.conf'"

// opens adds what a NetworkPolicy's rule has then: each port, by both protocols.
func opens(rule string, more map[string]string, ports ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, more)
	for i, port := range ports {
		for j, protocol := range []string{"UDP", "TCP"} {
			entry := fmt.Sprintf("%s.ports.%d.", rule, 2*i+j)
			all[entry+"port"], all[entry+"protocol"] = port, fmt.Sprintf("%q", protocol)
		}
	}
	return all
}

// A valueCase says all that some values change in what others render.
type valueCase struct {
	before string // c1 unless given
	values string
	want   map[string]string
}

var valueCases = map[string]valueCase{
	"another id":        {values: "cluster: {id: a.b-2}", want: map[string]string{args: strings.Replace(flags(), "c1", "a.b-2", 1)}},
	"no id of ours":     {values: "cluster: {useClusterProperty: true}", want: map[string]string{args: strings.Replace(flags(), `,"--cluster-id=c1"`, "", 1)}},
	"peer timeout":      {values: "cluster: {id: c1, peerTimeout: 1m30s}", want: map[string]string{args: flags("--peer-timeout=1m30s")}},
	"no peer timeout":   {values: "cluster: {id: c1, peerTimeout: 0}", want: map[string]string{args: flags("--peer-timeout=0")}},
	"no probes":         {values: "cluster: {id: c1, probePeers: false}", want: map[string]string{args: flags("--probe-peers=false")}},
	"a cut-off timeout": {values: "cluster: {id: c1, cutOffTimeout: 1h}", want: map[string]string{args: flags("--cut-off-timeout=1h")}},
	"no last endpoints": {values: "cluster: {id: c1, keepLastEndpoints: false}", want: map[string]string{args: flags("--keep-last-endpoints=false")}},
	"slices":            {values: "cluster: {id: c1, maxEndpointsPerSlice: 1000}", want: map[string]string{args: flags("--max-endpoints-per-slice=1000")}},
	"properties": {values: "cluster: {id: c1, properties: {topology.kubernetes.io/region: eu, example.com/tier: gold}}",
		want: map[string]string{args: flags("--cluster-properties=example.com/tier=gold,topology.kubernetes.io/region=eu")}},
	"export namespaces": {values: "cluster: {id: c1, exportNamespaces: 'visibility!=internal'}", want: map[string]string{args: flags("--export-namespaces=visibility!=internal")}},
	"native names":      {values: "cluster: {id: c1, nativeNames: kubernetes.io/metadata.name}", want: map[string]string{args: flags("--native-names=kubernetes.io/metadata.name")}},
	"import namespaces": {values: "cluster: {id: c1, importNamespaces: 'team in (a, b)'}", want: map[string]string{args: flags("--import-namespaces=team in (a, b)")}},
	"auto-export": {values: "cluster: {id: c1, autoExport: \"on\", autoExportAnnotation: kosmos.io/auto-create-mcs}", want: map[string]string{
		args:                                   flags("--auto-export=on", "--auto-export-annotation=kosmos.io/auto-create-mcs"),
		"ClusterRole/multicluster-auto-export": "new", "ClusterRoleBinding/multicluster-auto-export": "new"}},
	"a report only": {values: "cluster: {id: c1, autoExport: report}", want: map[string]string{args: flags("--auto-export=report")}},
	"log level":     {values: "cluster: {id: c1, logLevel: DEBUG}", want: map[string]string{args: flags("--log-level=DEBUG")}},

	"a peer":                   {values: c1 + "peers: [{name: c2.eu, kubeconfig: \"apiVersion: v1\\n\"}]", want: map[string]string{"Secret/c2.eu": "new"}},
	"a peer whose name is 001": {values: c1 + `peers: [{name: "001", kubeconfig: x}]`, want: map[string]string{"Secret/001": "new"}},
	"a peer of others' making": {values: c1 + "peers: [{name: c2, existingSecret: true}]"},
	"no peer reads this cluster": {values: c1 + "peerAccount: {create: false}", want: map[string]string{
		"ServiceAccount/multicluster-peer": "", "ClusterRole/multicluster-peer": "", "ClusterRoleBinding/multicluster-peer": "",
		"Role/multicluster-peer": "", "RoleBinding/multicluster-peer": ""}},
	"a reader": {values: c1 + `peerAccount: {readers: [{id: "001"}]}`, want: map[string]string{"Secret/multicluster-peer-001": "new"}},
	"a reader whose token expires": {values: c1 + "peerAccount: {readers: [{id: c2.eu, expiring: true}]}", want: map[string]string{
		"ServiceAccount/multicluster-peer-c2.eu": "new", "ClusterRoleBinding/multicluster-peer-c2.eu": "new",
		"Role/multicluster-peer-c2.eu": "new", "RoleBinding/multicluster-peer-c2.eu": "new"}},

	"no controller": {values: "controller: {enabled: false}", want: map[string]string{
		"ServiceAccount/multicluster-controller": "", "ClusterRole/multicluster-controller": "", "ClusterRoleBinding/multicluster-controller": "",
		"Role/multicluster-controller": "", "RoleBinding/multicluster-controller": "", "Deployment/multicluster-controller": ""}},
	"the controller's image": {values: c1 + "controller: {image: {repository: example.org:5000/c, tag: v1, pullPolicy: Always}}", want: map[string]string{
		controllerPod + "spec.containers.0.image": `"example.org:5000/c:v1"`, controllerPod + "spec.containers.0.imagePullPolicy": `"Always"`}},
	"its digest": {values: c1 + "controller: {image: {digest: " + digest + "}}", want: map[string]string{
		controllerPod + "spec.containers.0.image": `"registry.invalid/clusterset-dns/multicluster-controller@` + digest + `"`}},
	"no controller for now, as before an uninstallation": {values: c1 + "controller: {replicas: 0}", want: map[string]string{"Deployment/multicluster-controller spec.replicas": "0"}},
	"one controller": {values: c1 + "controller: {replicas: 1}", want: map[string]string{"Deployment/multicluster-controller spec.replicas": "1"}},
	"flags":          {values: c1 + "controller: {extraArgs: [--a=1, --b]}", want: map[string]string{args: flags("--a=1", "--b")}},
	"cluster profiles": {values: c1 + "controller: {clusterProfiles: fleet}", want: map[string]string{
		args: flags("--cluster-profiles=fleet"), "Role/multicluster-cluster-profiles": "new", "RoleBinding/multicluster-cluster-profiles": "new"}},
	"renewed tokens":  {values: c1 + "controller: {renewTokens: true}", want: map[string]string{"Role/multicluster-renew": "new", "RoleBinding/multicluster-renew": "new"}},
	"its resources":   {values: c1 + "controller: {resources: {limits: {memory: 1Gi}}}", want: map[string]string{controllerPod + "spec.containers.0.resources.limits.memory": `"1Gi"`}},
	"its priority":    {values: c1 + "controller: {priorityClassName: high}", want: map[string]string{controllerPod + "spec.priorityClassName": `"high"`}},
	"its nodes":       {values: c1 + "controller: {nodeSelector: {a: b}}", want: map[string]string{controllerPod + "spec.nodeSelector.a": `"b"`}},
	"its tolerations": {values: c1 + "controller: {tolerations: [{key: a, operator: Exists}]}", want: map[string]string{controllerPod + "spec.tolerations.0.key": `"a"`, controllerPod + "spec.tolerations.0.operator": `"Exists"`}},
	"its affinity":    {values: c1 + "controller: {affinity: {podAffinity: {}}}", want: map[string]string{controllerPod + "spec.affinity.podAffinity": "{}"}},
	"its annotations": {values: c1 + `controller: {podAnnotations: {a: "true"}}`, want: map[string]string{controllerPod + "metadata.annotations.a": `"true"`}},
	"its labels":      {values: c1 + `controller: {podLabels: {a: "true"}}`, want: map[string]string{controllerPod + "metadata.labels.a": `"true"`}},
	"its environment": {values: c1 + "controller: {extraEnv: [{name: HTTPS_PROXY, value: 'http://192.0.2.1:3128'}]}", want: map[string]string{
		controllerPod + "spec.containers.0.env.0.name": `"HTTPS_PROXY"`, controllerPod + "spec.containers.0.env.0.value": `"http://192.0.2.1:3128"`}},
	"its volumes": {values: c1 + "controller: {extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: /a}]}", want: map[string]string{
		controllerPod + "spec.volumes.0.name": `"a"`, controllerPod + "spec.volumes.0.emptyDir": "{}",
		controllerPod + "spec.containers.0.volumeMounts.0.name": `"a"`, controllerPod + "spec.containers.0.volumeMounts.0.mountPath": `"/a"`}},
	"its spread": {values: c1 + "controller: {topologySpreadConstraints: [" + perZone + "]}", want: map[string]string{
		controllerPod + "spec.topologySpreadConstraints.0.topologyKey": `"zone"`, controllerPod + "spec.topologySpreadConstraints.0.whenUnsatisfiable": `"DoNotSchedule"`,
		controllerPod + "spec.topologySpreadConstraints.0.labelSelector.matchLabels.app.kubernetes.io/name": "", controllerPod + "spec.topologySpreadConstraints.0.labelSelector": "{}"}},
	"its disruption budget": {values: c1 + "controller: {podDisruptionBudget: {enabled: true}}", want: map[string]string{"PodDisruptionBudget/multicluster-controller": "new"}},
	"the disruption that it allows": {before: c1 + "controller: {podDisruptionBudget: {enabled: true}}", values: c1 + "controller: {podDisruptionBudget: {enabled: true, maxUnavailable: 50%}}",
		want: map[string]string{"PodDisruptionBudget/multicluster-controller spec.maxUnavailable": `"50%"`}},

	"rights for a CoreDNS of another name": {before: c1 + "dns: {mode: cluster}", values: c1 + "dns: {mode: cluster, account: {namespace: dns, name: rke2}}", want: map[string]string{
		"ClusterRoleBinding/multicluster-dns:coredns subjects.0.name": `"rke2"`, "ClusterRoleBinding/multicluster-dns:coredns subjects.0.namespace": `"dns"`}},
	"leaving replace, which is for upgrades of a release": {values: c1 + "dns: {leaveReplace: true}"},
	"CoreDNS' image": {values: c1 + "dns: {image: {repository: r/d, tag: v1, pullPolicy: Never}}", want: map[string]string{
		serverPod + "spec.containers.0.image": `"r/d:v1"`, serverPod + "spec.containers.0.imagePullPolicy": `"Never"`}},
	"CoreDNS' digest": {values: c1 + "dns: {image: {digest: " + digest + "}}", want: map[string]string{serverPod + "spec.containers.0.image": `"registry.invalid/clusterset-dns/coredns@` + digest + `"`}},
	"no drain": {values: c1 + "dns: {drainSeconds: 0}", want: map[string]string{
		serverPod + "spec.containers.0.lifecycle.preStop.sleep.seconds": "", serverPod + "spec.terminationGracePeriodSeconds": ""}},
	"a longer drain": {values: c1 + "dns: {drainSeconds: 120}", want: map[string]string{
		serverPod + "spec.containers.0.lifecycle.preStop.sleep.seconds": "120", serverPod + "spec.terminationGracePeriodSeconds": "150"}},
	"three servers": {values: c1 + "dns: {replicas: 3}", want: map[string]string{"Deployment/multicluster-dns spec.replicas": "3"}},
	"an address":    {values: c1 + "dns: {clusterIP: 10.0.0.11}", want: map[string]string{"Service/multicluster-dns spec.clusterIP": `"10.0.0.11"`}},
	"an internal load balancer": {values: c1 + "dns: {service: {type: LoadBalancer, annotations: {networking.gke.io/load-balancer-type: Internal}, loadBalancerClass: a.example/b, " +
		"loadBalancerSourceRanges: [10.0.0.0/8, 'fd00::/8'], externalTrafficPolicy: Local}}", want: map[string]string{
		"Service/multicluster-dns metadata.annotations.networking.gke.io/load-balancer-type": `"Internal"`,
		"Service/multicluster-dns spec.type":                                                 `"LoadBalancer"`, "Service/multicluster-dns spec.loadBalancerClass": `"a.example/b"`,
		"Service/multicluster-dns spec.loadBalancerSourceRanges": `["10.0.0.0/8","fd00::/8"]`, "Service/multicluster-dns spec.externalTrafficPolicy": `"Local"`}},
	"two families": {values: c1 + "dns: {service: {ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6, IPv4]}}", want: map[string]string{
		"Service/multicluster-dns spec.ipFamilyPolicy": `"RequireDualStack"`, "Service/multicluster-dns spec.ipFamilies": `["IPv6","IPv4"]`}},
	"CoreDNS' resources": {values: c1 + "dns: {resources: {requests: {cpu: 1}}}", want: map[string]string{serverPod + "spec.containers.0.resources.requests.cpu": "1"}},
	"CoreDNS' priority":  {values: c1 + "dns: {priorityClassName: high}", want: map[string]string{serverPod + "spec.priorityClassName": `"high"`}},
	"CoreDNS' priority, as the cluster's own": {before: replace, values: replace + "  priorityClassName: high", want: map[string]string{
		"Deployment/coredns spec.template.spec.priorityClassName": `"high"`}},
	"CoreDNS' nodes":       {values: c1 + "dns: {nodeSelector: {a: b}}", want: map[string]string{serverPod + "spec.nodeSelector.a": `"b"`}},
	"CoreDNS' tolerations": {values: c1 + "dns: {tolerations: [{key: a}]}", want: map[string]string{serverPod + "spec.tolerations.0.key": `"a"`}},
	"CoreDNS' tolerations, as the cluster's own": {before: replace, values: replace + "  tolerations: [{key: a}]", want: map[string]string{
		"Deployment/coredns spec.template.spec.tolerations.2.key": `"a"`}},
	"CoreDNS' affinity":    {values: c1 + "dns: {affinity: {podAffinity: {}}}", want: map[string]string{serverPod + "spec.affinity.podAffinity": "{}"}},
	"CoreDNS' annotations": {values: c1 + `dns: {podAnnotations: {a: "1"}}`, want: map[string]string{serverPod + "metadata.annotations.a": `"1"`}},
	"CoreDNS' flags":       {values: c1 + "dns: {extraArgs: [-quiet]}", want: map[string]string{serverPod + "spec.containers.0.args": `["-conf","/etc/coredns/Corefile","-dns.port=1053","-quiet"]`}},
	"CoreDNS' labels":      {values: c1 + `dns: {podLabels: {a: "1"}}`, want: map[string]string{serverPod + "metadata.labels.a": `"1"`}},
	"CoreDNS' environment": {values: c1 + `dns: {extraEnv: [{name: A, value: "1"}]}`, want: map[string]string{serverPod + "spec.containers.0.env.2.name": `"A"`, serverPod + "spec.containers.0.env.2.value": `"1"`}},
	"CoreDNS' volumes": {values: c1 + "dns: {extraVolumes: [{name: a, emptyDir: {}}], extraVolumeMounts: [{name: a, mountPath: /a}]}", want: map[string]string{
		serverPod + "spec.volumes.1.name": `"a"`, serverPod + "spec.volumes.1.emptyDir": "{}",
		serverPod + "spec.containers.0.volumeMounts.1.name": `"a"`, serverPod + "spec.containers.0.volumeMounts.1.mountPath": `"/a"`}},
	"CoreDNS' spread": {before: replace, values: replace + "  topologySpreadConstraints: [" + perZone + "]", want: map[string]string{
		clusterPod + "spec.topologySpreadConstraints.0.topologyKey": `"zone"`, clusterPod + "spec.topologySpreadConstraints.0.whenUnsatisfiable": `"DoNotSchedule"`,
		clusterPod + "spec.topologySpreadConstraints.0.labelSelector.matchLabels.k8s-app": "", clusterPod + "spec.topologySpreadConstraints.0.labelSelector": "{}"}},
	"as many servers as they need": {values: c1 + "dns: {autoscaling: {enabled: true}}", want: map[string]string{
		"HorizontalPodAutoscaler/multicluster-dns": "new", "Deployment/multicluster-dns spec.replicas": ""}},
	"as many as the cluster's own need": {before: replace, values: replace + "  replicas: 0\n  autoscaling: {enabled: true}", want: map[string]string{
		"HorizontalPodAutoscaler/coredns": "new", "Deployment/coredns spec.replicas": ""}},
	"how many they can be": {before: c1 + "dns: {autoscaling: {enabled: true}}", values: c1 + "dns: {autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 5, targetCPUUtilizationPercentage: 50}}",
		want: map[string]string{"HorizontalPodAutoscaler/multicluster-dns spec.minReplicas": "3", "HorizontalPodAutoscaler/multicluster-dns spec.maxReplicas": "5",
			"HorizontalPodAutoscaler/multicluster-dns spec.metrics.0.resource.target.averageUtilization": "50"}},
	"CoreDNS' disruption budget": {values: c1 + "dns: {podDisruptionBudget: {enabled: true}}", want: map[string]string{"PodDisruptionBudget/multicluster-dns": "new"}},
	"the disruption that CoreDNS allows": {before: c1 + "dns: {podDisruptionBudget: {enabled: true}}", values: c1 + "dns: {podDisruptionBudget: {enabled: true, maxUnavailable: 2}}",
		want: map[string]string{"PodDisruptionBudget/multicluster-dns spec.maxUnavailable": "2"}},

	"zones": {values: c1 + "dns: {plugin: {zones: [a.example, b.example]}}", want: map[string]string{
		serverText: strings.Replace(secondServer("", ""), "clusterset.local {", "a.example b.example {", 1)}},
	"zones, as the cluster's own": {before: replace, values: replace + "  plugin: {zones: [a.example, b.example]}", want: map[string]string{
		clusterText: clusterServer("clusterset.local", "a.example b.example")}},
	"a client pod's zones": {before: c1 + "dns: {mode: none}\nclientPod: {enabled: true}", values: c1 + "dns: {mode: none, plugin: {zones: [a.example]}}\nclientPod: {enabled: true}",
		want: map[string]string{"Deployment/multicluster-client spec.template.spec.dnsConfig.searches": `["a.example"]`}},
	"TTLs": {values: c1 + "dns: {plugin: {ttl: 0, negttl: 3600}}", want: map[string]string{serverText: secondServer("ttl 0\nnegttl 3600", "")}},
	"size over UDP": {values: c1 + "dns: {plugin: {udpSize: 4096}}", want: map[string]string{
		serverText: strings.Replace(secondServer("udp_size 4096", ""), "bufsize 1232", "bufsize 4096", 1)}},
	"namespaces":      {values: c1 + "dns: {plugin: {namespaces: [default, shop]}}", want: map[string]string{serverText: secondServer("namespaces default shop", "")}},
	"labels":          {values: c1 + `dns: {plugin: {labels: "env in (a, b), c=d"}}`, want: map[string]string{serverText: secondServer("labels env in (a, b), c=d", "")}},
	"no endpoints":    {values: c1 + "dns: {plugin: {noEndpoints: true}}", want: map[string]string{serverText: secondServer("noendpoints", "")}},
	"startup timeout": {values: c1 + "dns: {plugin: {startupTimeout: 0s}}", want: map[string]string{serverText: secondServer("startup_timeout 0s", "")}},
	"ready timeout":   {values: c1 + "dns: {plugin: {readyTimeout: 5m}}", want: map[string]string{serverText: secondServer("ready_timeout 5m", "")}},
	"ready timeout of the cluster's own": {before: replace, values: replace + "  plugin: {readyTimeout: 5m}", want: map[string]string{
		clusterText: clusterServer("multicluster clusterset.local\n", "multicluster clusterset.local {\n        ready_timeout 5m\n    }\n")}},
	"fallthrough": {values: c1 + "dns: {upstreams: [192.0.2.53, 'tls://192.0.2.54'], plugin: {fallthrough: {enabled: true}}}", want: map[string]string{
		serverText: secondServer("fallthrough", "    forward . 192.0.2.53 tls://192.0.2.54\n")}},
	"fallthrough of a zone": {before: replace, values: replace + "  plugin: {fallthrough: {enabled: true, zones: [a.clusterset.local]}}", want: map[string]string{
		clusterText: clusterServer("multicluster clusterset.local\n", "multicluster clusterset.local {\n        fallthrough a.clusterset.local\n    }\n")}},
	"alias in a zone that the plugin kubernetes does not have": {before: replace, values: replace + "  plugin: {alias: [a.example]}", want: map[string]string{
		clusterText: clusterServer("multicluster clusterset.local\n", "multicluster clusterset.local {\n        alias a.example\n    }\n")}},
	"the cluster's domain": {before: replace, values: replace + "  clusterDomain: k8s.example", want: map[string]string{
		clusterText: clusterServer("multicluster clusterset.local\n", "multicluster clusterset.local {\n        cluster_domain k8s.example\n    }\n", "cluster.local", "k8s.example")}},
	"autopath":  {before: replace, values: replace + "  autopath: true", want: map[string]string{clusterText: clusterServer("    kubernetes", "    autopath @multicluster\n    kubernetes")}},
	"upstreams": {before: replace, values: replace + "  upstreams: [192.0.2.1]", want: map[string]string{clusterText: clusterServer("/etc/resolv.conf", "192.0.2.1")}},
	"a Corefile": {values: c1 + "dns:\n  corefile: |\n    . {\n        whoami\n    }\n", want: map[string]string{
		serverText: `". {\n    whoami\n}\n"`}},
	"a Corefile for the cluster": {before: replace, values: replace + "  corefile: . {}", want: map[string]string{
		clusterText: `". {}\n"`, "ClusterRole/multicluster-dns:kubernetes rules.0.resources": `["services","namespaces","pods"]`}},

	"pull secrets": {before: c1 + "clientPod: {enabled: true}", values: c1 + "clientPod: {enabled: true}\nimagePullSecrets: [{name: registry}]", want: map[string]string{
		controllerPod + "spec.imagePullSecrets.0.name": `"registry"`, serverPod + "spec.imagePullSecrets.0.name": `"registry"`,
		"Deployment/multicluster-client spec.template.spec.imagePullSecrets.0.name": `"registry"`}},
	"no CRDs": {values: c1 + "crds: {install: false}", want: map[string]string{
		"CustomResourceDefinition/serviceimports.multicluster.x-k8s.io": "", "CustomResourceDefinition/serviceexports.multicluster.x-k8s.io": ""}},
	"service monitors": {values: c1 + "serviceMonitor: {enabled: true}", want: map[string]string{
		"ServiceMonitor/multicluster-controller": "new", "Service/multicluster-controller-metrics": "new",
		"ServiceMonitor/multicluster-dns": "new", "Service/multicluster-dns-metrics": "new"}},
	"a service monitor of the cluster's own": {before: replace, values: replace + "serviceMonitor: {enabled: true}", want: map[string]string{
		"ServiceMonitor/multicluster-controller": "new", "Service/multicluster-controller-metrics": "new", "ServiceMonitor/coredns": "new"}},
	"how they are found": {before: c1 + "serviceMonitor: {enabled: true}", values: c1 + "serviceMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}", want: map[string]string{
		"ServiceMonitor/multicluster-controller metadata.labels.release": `"prometheus"`, "ServiceMonitor/multicluster-dns metadata.labels.release": `"prometheus"`,
		"ServiceMonitor/multicluster-controller spec.endpoints.0.interval": `"30s"`, "ServiceMonitor/multicluster-dns spec.endpoints.0.interval": `"30s"`}},
	"pod monitors": {values: c1 + "podMonitor: {enabled: true}", want: map[string]string{"PodMonitor/multicluster-controller": "new", "PodMonitor/multicluster-dns": "new"}},
	"a pod monitor of the cluster's own": {before: replace, values: replace + "podMonitor: {enabled: true}", want: map[string]string{
		"PodMonitor/multicluster-controller": "new", "PodMonitor/coredns": "new"}},
	"how pods are found": {before: c1 + "podMonitor: {enabled: true}", values: c1 + "podMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}", want: map[string]string{
		"PodMonitor/multicluster-controller metadata.labels.release": `"prometheus"`, "PodMonitor/multicluster-dns metadata.labels.release": `"prometheus"`,
		"PodMonitor/multicluster-controller spec.podMetricsEndpoints.0.interval": `"30s"`, "PodMonitor/multicluster-dns spec.podMetricsEndpoints.0.interval": `"30s"`}},
	"alerts": {values: c1 + "prometheusRule: {enabled: true}", want: map[string]string{"PrometheusRule/multicluster": "new"}},
	"how they are selected": {before: c1 + "prometheusRule: {enabled: true}", values: c1 + "prometheusRule: {enabled: true, labels: {release: prometheus}}", want: map[string]string{
		"PrometheusRule/multicluster metadata.labels.release": `"prometheus"`}},
	"a dashboard": {values: c1 + "dashboard: {enabled: true}", want: map[string]string{"ConfigMap/multicluster-dashboard": "new"}},
	"how it is found": {before: c1 + "dashboard: {enabled: true}", values: c1 + "dashboard: {enabled: true, labels: {grafana_dashboard: null, a: b}}", want: map[string]string{
		"ConfigMap/multicluster-dashboard metadata.labels.a": `"b"`, "ConfigMap/multicluster-dashboard metadata.labels.grafana_dashboard": ""}},
	"objects of others' making": {values: c1 + "extraObjects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: " + chartsLabels + "}, data: {a: '{{ .Values.cluster.id }} {{ \"{{\" }}cluster}}'}}, " +
		"\"{apiVersion: v1, kind: Secret, metadata: {name: '{{ .Release.Name }}', labels: " + chartsLabels + "}}\"]", want: map[string]string{"ConfigMap/a": "new", "Secret/multicluster": "new"}},
	"a name for `helm test`, whose pod is none of the release's objects": {values: c1 + "test: {name: foo.default.svc.clusterset.local}"},
	"network policies": {values: c1 + "networkPolicy: {enabled: true}", want: map[string]string{
		"NetworkPolicy/multicluster-controller": "new", "NetworkPolicy/multicluster-dns": "new"}},
	"a forwarding server asks name servers": {before: c1 + "networkPolicy: {enabled: true}", values: c1 + "networkPolicy: {enabled: true}\ndns: {upstreams: [192.0.2.1], plugin: {fallthrough: {enabled: true}}}", want: map[string]string{
		serverText: secondServer("fallthrough", "    forward . 192.0.2.1\n"),
		"NetworkPolicy/multicluster-dns spec.egress.1.ports.0.port": "53", "NetworkPolicy/multicluster-dns spec.egress.1.ports.0.protocol": `"UDP"`,
		"NetworkPolicy/multicluster-dns spec.egress.1.ports.1.port": "53", "NetworkPolicy/multicluster-dns spec.egress.1.ports.1.protocol": `"TCP"`}},
	"name servers on other ports": {before: replace + "networkPolicy: {enabled: true}", values: replace + "  upstreams: [" + otherPorts + "]\nnetworkPolicy: {enabled: true}",
		want: opens("NetworkPolicy/coredns spec.egress.2", map[string]string{clusterText: clusterServer("/etc/resolv.conf", strings.NewReplacer(",", "", "'", "").Replace(otherPorts))},
			"853", "5353", "8853", "443", "5354")},
	"name servers of a Corefile": {before: c1 + "networkPolicy: {enabled: true}\n" + `dns: {corefile: ". {}"}`,
		values: c1 + "networkPolicy: {enabled: true}\n" + `dns: {corefile: ". {}", upstreams: ["192.0.2.1:5353"]}`, want: opens("NetworkPolicy/multicluster-dns spec.egress.2", nil, "5353")},
	"where the endpoints of peers are": {before: c1 + "networkPolicy: {enabled: true}", values: c1 + "networkPolicy: {enabled: true, peerEndpoints: [10.2.0.0/16]}", want: map[string]string{
		"NetworkPolicy/multicluster-controller spec.egress.1.to.0.ipBlock.cidr": `"10.2.0.0/16"`}},
	"no rule for the endpoints of peers": {before: c1 + "networkPolicy: {enabled: true}", values: "cluster: {id: c1, probePeers: false}\nnetworkPolicy: {enabled: true}", want: map[string]string{
		args: flags("--probe-peers=false"),
		"NetworkPolicy/multicluster-controller spec.egress.1.ports.0.port": "53", "NetworkPolicy/multicluster-controller spec.egress.1.ports.0.protocol": `"UDP"`,
		"NetworkPolicy/multicluster-controller spec.egress.1.ports.1.port": "53", "NetworkPolicy/multicluster-controller spec.egress.1.ports.1.protocol": `"TCP"`,
		"NetworkPolicy/multicluster-controller spec.egress.2.ports.0.port": "", "NetworkPolicy/multicluster-controller spec.egress.2.ports.0.protocol": "",
		"NetworkPolicy/multicluster-controller spec.egress.2.ports.1.port": "", "NetworkPolicy/multicluster-controller spec.egress.2.ports.1.protocol": ""}},
	"where API servers are": {before: c1 + "networkPolicy: {enabled: true}",
		values: c1 + "networkPolicy: {enabled: true, apiServers: [192.0.2.0/24], apiServerPorts: [443, 16443], metricsFrom: [{namespaceSelector: {}}]}", want: map[string]string{
			"NetworkPolicy/multicluster-controller spec.egress.0.ports.1.port": "16443", "NetworkPolicy/multicluster-dns spec.egress.0.ports.1.port": "16443",
			"NetworkPolicy/multicluster-controller spec.egress.0.to.0.ipBlock.cidr": `"192.0.2.0/24"`, "NetworkPolicy/multicluster-dns spec.egress.0.to.0.ipBlock.cidr": `"192.0.2.0/24"`,
			"NetworkPolicy/multicluster-controller spec.ingress.0.from.0.namespaceSelector": "{}", "NetworkPolicy/multicluster-dns spec.ingress.1.from.0.namespaceSelector": "{}"}},
	"a client pod": {values: c1 + "clientPod: {enabled: true}", want: map[string]string{"Deployment/multicluster-client": "new"}},
	"its image": {before: c1 + "clientPod: {enabled: true}", values: c1 + "clientPod: {enabled: true, image: tools:1}", want: map[string]string{
		"Deployment/multicluster-client spec.template.spec.containers.0.image": `"tools:1"`}},
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestEachValueChangesWhatItDocuments: that, and nothing else.
func TestEachValueChangesWhatItDocuments(t *testing.T) {
	for name, test := range valueCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.before
			if before == "" {
				before = c1
			}
			got := changes(t, render(t, before), render(t, test.values))
			if test.want == nil {
				test.want = map[string]string{}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOlderAPIServersGetNoDrain: one before Kubernetes 1.30 would refuse it.
func TestOlderAPIServersGetNoDrain(t *testing.T) {
	for version, want := range map[string]bool{"v1.29.14": false, "v1.30.0": true, "v1.36.3-gke.100": true} {
		text, err := helm(t, "", c1, "template", release, chart, "--namespace", system, "--values", "-", "--kube-version", version)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text, "preStop") && strings.Contains(text, "terminationGracePeriodSeconds: 60"); got != want {
			t.Errorf("with %s there is a drain: %v; want %v", version, got, want)
		}
	}
}

// TestEachValueHasATest compares values.yaml with the cases above and the modes of dns, which the bases test.
func TestEachValueHasATest(t *testing.T) {
	text, err := os.ReadFile("multicluster/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{"dns.mode": true}
	for _, test := range valueCases {
		maps.Copy(tested, named(t, test.values))
	}
	for value := range named(t, string(text)) {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(tested)), func(path string) bool { return path == value || strings.HasPrefix(path, value+".") }) {
			t.Errorf("nothing tests %s", value)
		}
	}
}

// TestMissingValuesAreNoticed: each value whose default is not empty is in the list of validate.yaml, each section that has none, and no other.
func TestMissingValuesAreNoticed(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(document(t, chart+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(document(t, chart+"/templates/validate/validate.yaml"), "range $path := list ")
	list, _, _ = strings.Cut(list, " }}")
	want, sections := map[string]bool{}, map[string]bool{}
	for path, value := range leaves(t, " ", values) {
		path = strings.TrimSpace(path)
		if section, _, isLabel := strings.Cut(path, ".labels."); isLabel {
			path = section + ".labels"
		}
		if dot := strings.LastIndex(path, "."); dot > 0 && !strings.Contains(path, ".resources.") {
			sections[path[:dot]] = true
		}
		if !slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, value) && !strings.Contains(path, ".resources.") && !strings.HasSuffix(path, ".labels") {
			want[strconv.Quote(path)] = true
		}
	}
	for section := range sections {
		inside := func(path string) bool { return strings.HasPrefix(path, strconv.Quote(section)[:len(section)+1]+".") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), inside) {
			want[strconv.Quote(section)] = true
		}
	}
	got := map[string]bool{}
	for _, path := range strings.Fields(list) {
		got[path] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-values.yaml +validate.yaml):\n%s", diff)
	}
}

// TestReadmeDescribesEachValue: `make lint` compares the rows with values.yaml, and not whether a comment is missing there.
func TestReadmeDescribesEachValue(t *testing.T) {
	values, err := os.ReadFile("multicluster/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readme := document(t, chart+"/README.md")
	for value := range named(t, string(values)) {
		value = strings.TrimSuffix(value, ".grafana_dashboard")
		if row := regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(value) + "` \\| `.+` \\| .{10,} \\|$"); !row.MatchString(readme) {
			t.Errorf("README.md does not describe %s: add a comment that begins with two dashes in values.yaml, and run make chart-readme", value)
		}
	}
}

// named are the paths of the values that a text gives. What is Kubernetes' own is one value.
func named(t *testing.T, text string) map[string]bool {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	paths := map[string]bool{}
	for path := range leaves(t, " ", values) {
		path, _, isResource := strings.Cut(strings.TrimSpace(path), ".resources.")
		if isResource {
			path += ".resources"
		}
		paths[path] = true
	}
	return paths
}
