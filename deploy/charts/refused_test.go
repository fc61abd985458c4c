package charts

import (
	"strings"
	"testing"
)

// TestWrongValuesAreRefused: each with what is wrong, and where.
func TestWrongValuesAreRefused(t *testing.T) {
	for name, test := range map[string]struct{ values, want string }{
		"no id":                                          {"", "cluster.id is required: set --set cluster.id="},
		"two sources of the id":                          {"cluster: {id: c1, useClusterProperty: true}", "are both set: remove one of them"},
		"an id that is no DNS name":                      {"cluster: {id: C_1}", "/cluster/id"},
		"an id that is a number":                         {"cluster: {id: 1}", "/cluster/id"},
		"an id that is too long":                         {"cluster: {id: " + strings.Repeat("a", 64) + "}", "/cluster/id"},
		"a property with a space":                        {`cluster: {id: c1, properties: {a.b/c: "d e"}}`, "/cluster/properties/a.b~1c"},
		"a peer timeout without unit":                    {`cluster: {id: c1, peerTimeout: 30}`, "/cluster/peerTimeout"},
		"too many endpoints":                             {"cluster: {id: c1, maxEndpointsPerSlice: 1001}", "/cluster/maxEndpointsPerSlice"},
		"an unknown log level":                           {"cluster: {id: c1, logLevel: LOUD}", "/cluster/logLevel"},
		"a value that is not there":                      {c1 + "controller: {replica: 1}", "'replica' not allowed"},
		"a section without a value":                      {c1 + "podMonitor: null", "podMonitor has no value. If you upgrade with --reuse-values, use --reset-then-reuse-values instead"},
		"a former name":                                  {c1 + "controller: {args: [--a=b]}", `add --set controller.args=null --set-json 'controller.extraArgs=["--a=b"]'`},
		"a section that is not there":                    {c1 + "coredns: {}", "'coredns' not allowed"},
		"itself as a peer":                               {c1 + "peers: [{name: c1, existingSecret: true}]", "c1 is the ID of this cluster"},
		"a peer twice":                                   {c1 + "peers: [{name: c2, existingSecret: true}, {name: c2, kubeconfig: x}]", "c2 is listed twice"},
		"a peer without a kubeconfig":                    {c1 + "peers: [{name: c2}]", "c2 must have either a kubeconfig or existingSecret: true"},
		"a peer with both":                               {c1 + "peers: [{name: c2, kubeconfig: x, existingSecret: true}]", "c2 must have either"},
		"a peer without a name":                          {c1 + "peers: [{kubeconfig: x}]", "missing property 'name'"},
		"peers without a controller":                     {"{controller: {enabled: false}, peers: [{name: c2, existingSecret: true}]}", "controller.enabled is false"},
		"a reader twice":                                 {c1 + "peerAccount: {readers: [{id: c2}, {id: c2, expiring: true}]}", "peerAccount.readers: c2 is listed twice"},
		"itself as a reader":                             {c1 + "peerAccount: {readers: [{id: c1}]}", "peerAccount.readers: c1 is the ID of this cluster"},
		"a reader without an account":                    {c1 + "peerAccount: {create: false, readers: [{id: c2}]}", "peerAccount.create is false"},
		"a reader without an id":                         {c1 + "peerAccount: {readers: [{expiring: true}]}", "missing property 'id'"},
		"a reader with a name":                           {c1 + "peerAccount: {readers: [{id: c2, name: c2}]}", "'name' not allowed"},
		"an invalid reader":                              {c1 + `peerAccount: {readers: [{id: "c2\n---"}]}`, "/peerAccount/readers/0/id"},
		"a reader that is a number":                      {c1 + "peerAccount: {readers: [{id: 2}]}", "/peerAccount/readers/0/id"},
		"a reader that is too long":                      {c1 + "peerAccount: {readers: [{id: " + strings.Repeat("a", 64) + "}]}", "/peerAccount/readers/0/id"},
		"readers that expire sometime":                   {c1 + "peerAccount: {readers: [{id: c2, expiring: 1h}]}", "/peerAccount/readers/0/expiring"},
		"no name of a namespace":                         {c1 + "controller: {clusterProfiles: Fleet_1}", "/controller/clusterProfiles"},
		"an argument that is no flag":                    {c1 + "controller: {extraArgs: [v=1]}", "/controller/extraArgs/0"},
		"a former value":                                 {c1 + "controller: {args: [--v=1]}", "controller.args is now controller.extraArgs"},
		"an unknown mode":                                {c1 + "dns: {mode: sidecar}", "value must be one of 'server', 'stock', 'cluster', 'replace', 'none'"},
		"an invalid address":                             {c1 + "dns: {clusterIP: beef}", "/dns/clusterIP"},
		"ranges without a load balancer":                 {c1 + "dns: {service: {loadBalancerSourceRanges: [10.0.0.0/8]}}", "dns.service.loadBalancerSourceRanges requires dns.service.type=LoadBalancer"},
		"external traffic of a ClusterIP":                {c1 + "dns: {service: {externalTrafficPolicy: Local}}", "requires dns.service.type=NodePort or LoadBalancer"},
		"a label that selects pods":                      {c1 + "controller: {podLabels: {app.kubernetes.io/name: a}}", "/controller/podLabels"},
		"a volume without a name":                        {c1 + "dns: {extraVolumes: [{emptyDir: {}}]}", "/dns/extraVolumes/0"},
		"more servers than the most":                     {c1 + "dns: {autoscaling: {enabled: true, minReplicas: 11}}", "dns.autoscaling.minReplicas is larger"},
		"a percentage of nothing":                        {c1 + "dns: {autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}", "dns.autoscaling requires dns.resources.requests.cpu"},
		"an object that is a number":                     {c1 + "extraObjects: [1]", "/extraObjects/0"},
		"a name that is no name":                         {c1 + "test: {name: 'a b'}", "/test/name"},
		"an unknown family":                              {c1 + "dns: {service: {ipFamilies: [IPv5]}}", "/dns/service/ipFamilies/0"},
		"cluster DNS without address":                    {c1 + "dns: {mode: replace}", "dns.clusterIP is required with dns.mode=replace"},
		"options of a plugin that the stock image lacks": {c1 + "dns: {mode: stock, plugin: {alias: [cluster.local]}}", "have no effect with dns.mode=stock"},
		"autopath in a second server":                    {c1 + "dns: {autopath: true}", "dns.autopath works with dns.mode=replace or cluster only"},
		"fallthrough to nothing":                         {c1 + "dns: {plugin: {fallthrough: {enabled: true}}}", "dns.plugin.fallthrough requires dns.upstreams"},
		"upstreams for nothing":                          {c1 + "dns: {upstreams: [192.0.2.1]}", "dns.upstreams requires dns.plugin.fallthrough"},
		"a drain without an end":                         {c1 + "dns: {drainSeconds: -1}", "/dns/drainSeconds"},
		"no zone":                                        {c1 + "dns: {plugin: {zones: []}}", "/dns/plugin/zones"},
		"the root zone":                                  {c1 + "dns: {plugin: {zones: [.]}}", "/dns/plugin/zones/0"},
		"a TTL that is too long":                         {c1 + "dns: {plugin: {ttl: 3601}}", "/dns/plugin/ttl"},
		"a zone that ends the block":                     {c1 + `dns: {plugin: {alias: ["a }"]}}`, "/dns/plugin/alias/0"},
		"labels that end the block":                      {c1 + `dns: {plugin: {labels: "a=b\n}"}}`, "/dns/plugin/labels"},
		"an upstream with a space":                       {c1 + `dns: {upstreams: ["a b"]}`, "/dns/upstreams/0"},
		"an invalid digest":                              {c1 + "dns: {image: {digest: latest}}", "/dns/image/digest"},
		"a tag and a digest":                             {c1 + "controller: {image: {tag: v1, digest: " + digest + "}}", "controller.image has a tag and a digest: tag v1, digest " + digest + ". To use the tag, also set --set controller.image.digest=\"\""},
		"a tag and a digest of CoreDNS":                  {c1 + "dns: {image: {tag: v1, digest: " + digest + "}}", "To use the digest, which is the default of a released chart, set --set dns.image.tag=\"\""},
		"two monitors of one pod":                        {c1 + "serviceMonitor: {enabled: true}\npodMonitor: {enabled: true}", "each pod would be scraped twice: set one of them to false"},
		"a TTL of a stock CoreDNS":                       {c1 + "dns: {mode: stock, plugin: {ttl: 0}}", "have no effect with dns.mode=stock"},
		"a negative TTL of a stock CoreDNS":              {c1 + "dns: {mode: stock, plugin: {negttl: 5}}", "have no effect with dns.mode=stock"},
		"a start of a stock CoreDNS":                     {c1 + "dns: {mode: stock, plugin: {startupTimeout: 1s}}", "have no effect with dns.mode=stock"},
		"the readiness of a stock CoreDNS":               {c1 + "dns: {mode: stock, plugin: {readyTimeout: 1s}}", "have no effect with dns.mode=stock"},
		"a load balancer without a server":               {c1 + "dns: {mode: stock, service: {type: LoadBalancer}}", "dns.service.type has no effect with dns.mode=stock"},
		"annotations without a Service":                  {c1 + "dns: {mode: none, service: {annotations: {a: b}}}", "dns.service.annotations has no effect with dns.mode=none"},
		"an autoscaler without a server":                 {c1 + "dns: {mode: cluster, autoscaling: {enabled: true}}", "dns.autoscaling has no effect with dns.mode=cluster"},
		"a second address of metrics":                    {c1 + "controller: {extraArgs: ['--metrics-bind-address=:1']}", "remove --metrics-bind-address=:1: the chart sets this flag"},
		"a second address of probes":                     {c1 + "controller: {extraArgs: ['--health-probe-bind-address=:1']}", "remove --health-probe-bind-address=:1: the chart sets this flag"},
		"no election":                                    {c1 + "controller: {extraArgs: [--leader-elect=false]}", "remove --leader-elect=false: the chart sets this flag"},
		"a second volume for the Corefile":               {c1 + "dns: {extraVolumes: [{name: corefile, emptyDir: {}}]}", "dns.extraVolumes: corefile is the name of the chart's own volume"},
		"no second server":                               {c1 + "dns: {replicas: 0}", "dns.replicas must be at least 1 with dns.mode=server"},
		"a percentage of no resources":                   {c1 + "dns: {autoscaling: {enabled: true}, resources: null}", "dns.autoscaling requires dns.resources.requests.cpu"},
		"a percentage of no requests":                    {c1 + "dns: {autoscaling: {enabled: true}, resources: {requests: null}}", "dns.autoscaling requires dns.resources.requests.cpu"},
		"an object with a template of others":            {c1 + "extraObjects: [{kind: ConfigMap}, {kind: ConfigMap, data: {a: '{{cluster}}'}}]", "extraObjects[1]. For a literal {{, write {{ `{{` }}"},
		"a tag that is a number":                         {c1 + "dns: {image: {tag: 1.0}}", "/dns/image/tag"},
		"a zone that is the cluster's":                   {c1 + "dns: {plugin: {zones: [Cluster.Local.]}}", "dns.plugin.zones: Cluster.Local. is also the domain of this cluster's own Services"},
		"a zone that is an alias too":                    {c1 + "dns: {plugin: {alias: [clusterset.local]}}", "dns.plugin.zones: clusterset.local is also the domain"},
		"no server for the cluster":                      {replace + "  replicas: 0", "dns.replicas must be at least 1 with dns.mode=replace"},
		"a second id":                                    {c1 + "controller: {extraArgs: [--cluster-id=c2]}", "controller.extraArgs: remove --cluster-id=c2, and set cluster.id instead"},
		"an invalid network":                             {c1 + "networkPolicy: {apiServers: [192.0.2.1/33]}", "/networkPolicy/apiServers/0"},
		"an invalid network of peers":                    {c1 + "networkPolicy: {peerEndpoints: [10.0.0.0]}", "/networkPolicy/peerEndpoints/0"},
		"a time that is no time":                         {"cluster: {id: c1, cutOffTimeout: soon}", "/cluster/cutOffTimeout"},
		"an API server that is a name":                   {c1 + "networkPolicy: {apiServers: [example.org]}", "/networkPolicy/apiServers/0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := template(t, test.values)
			// Helm writes a path in this or in that way, by its version.
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q\n%s", err, test.want, text)
			}
		})
	}
}

// TestLint: `helm lint --strict` has nothing to say, in any mode, with everything on.
func TestLint(t *testing.T) {
	for mode, values := range everything {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if text, err := helm(t, "", values, "lint", "--strict", chart, "--namespace", system, "--values", "-"); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
