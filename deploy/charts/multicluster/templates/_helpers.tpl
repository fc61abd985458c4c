{{/* Labels of every object, in addition to its own. */}}
{{- define "multicluster.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: multicluster
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The reference to an image, of the values `image`. The default of the tag is the version of the release. */}}
{{- define "multicluster.image" -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The Pod Security Standard "restricted", for all pods of the chart. */}}
{{- define "multicluster.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Scheduling of a pod, from the values of its program. A list of tolerations can precede those of the values. */}}
{{- define "multicluster.scheduling" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Spreads the pods of a selector over the nodes where possible, unless the values of their program say something else. */}}
{{- define "multicluster.spread" -}}
topologySpreadConstraints:
  {{- with .constraints }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- .selector | nindent 8 }}
  {{- end }}
{{- end }}

{{/* Annotations of what the pod of `helm test` needs before it starts, and no longer than that. */}}
{{- define "multicluster.testAccount" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Whether this chart runs a CoreDNS, and its name. */}}
{{- define "multicluster.runsDNS" -}}
{{- if has .Values.dns.mode (list "server" "replace") }}true{{ end }}
{{- end }}
{{- define "multicluster.dnsName" -}}
{{ ternary "coredns" "multicluster-dns" (eq .Values.dns.mode "replace") }}
{{- end }}
{{- define "multicluster.dnsNamespace" -}}
{{ ternary "kube-system" .Release.Namespace (eq .Values.dns.mode "replace") }}
{{- end }}

{{/* The selector of its pods. The cluster's own DNS has its usual label. */}}
{{- define "multicluster.dnsSelector" -}}
{{ ternary "k8s-app: kube-dns" "app.kubernetes.io/name: multicluster-dns" (eq .Values.dns.mode "replace") }}
{{- end }}

{{/* The plugin's line in a Corefile, or its block, from `zones` and `dns`. Without zones, those of the server block count. */}}
{{- define "multicluster.plugin" -}}
{{- $plugin := .dns.plugin }}
{{- $options := list }}
{{- with $plugin.namespaces }}{{ $options = append $options (printf "namespaces %s" (join " " .)) }}{{ end }}
{{- with $plugin.labels }}{{ $options = append $options (printf "labels %s" .) }}{{ end }}
{{- if $plugin.noEndpoints }}{{ $options = append $options "noendpoints" }}{{ end }}
{{- if not (kindIs "invalid" $plugin.ttl) }}{{ $options = append $options (printf "ttl %d" (int $plugin.ttl)) }}{{ end }}
{{- if not (kindIs "invalid" $plugin.negttl) }}{{ $options = append $options (printf "negttl %d" (int $plugin.negttl)) }}{{ end }}
{{- with $plugin.udpSize }}{{ $options = append $options (printf "udp_size %d" (int .)) }}{{ end }}
{{- with $plugin.alias }}{{ $options = append $options (printf "alias %s" (join " " .)) }}{{ end }}
{{- if ne .dns.clusterDomain "cluster.local" }}{{ $options = append $options (printf "cluster_domain %s" .dns.clusterDomain) }}{{ end }}
{{- with $plugin.startupTimeout }}{{ $options = append $options (printf "startup_timeout %s" .) }}{{ end }}
{{- if $plugin.fallthrough.enabled }}{{ $options = append $options (join " " (prepend $plugin.fallthrough.zones "fallthrough")) }}{{ end }}
{{- with $plugin.readyTimeout | default .readyTimeout }}{{ $options = append $options (printf "ready_timeout %s" .) }}{{ end -}}
{{ join " " (prepend .zones "multicluster") }}
{{- if $options }} {
    {{- join "\n" $options | nindent 4 }}
}
{{- end }}
{{- end }}

{{/* The Corefile of the second server: corefile-examples/second-server.Corefile, and alias-second-server.Corefile. */}}
{{- define "multicluster.serverCorefile" -}}
{{- $plugin := .Values.dns.plugin -}}
{{ join " " (concat $plugin.zones $plugin.alias) }} {
    errors
    bufsize {{ int ($plugin.udpSize | default 1232) }}
    health {
        lameduck 5s
    }
    ready
    {{- include "multicluster.plugin" (dict "dns" .Values.dns "zones" (ternary $plugin.zones list (not (empty $plugin.alias))) "readyTimeout" "24h") | nindent 4 }}
    prometheus :9153
    {{- with .Values.dns.upstreams }}
    forward . {{ join " " . }}
    {{- end }}
    reload
    loadbalance
}
{{- end }}

{{/* The Corefile of the cluster's own server: corefile-examples/stock.Corefile, autopath.Corefile and alias.Corefile. */}}
{{- define "multicluster.clusterCorefile" -}}
{{- $domain := .Values.dns.clusterDomain }}
{{- $alias := has $domain .Values.dns.plugin.alias -}}
.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    {{- if .Values.dns.autopath }}
    autopath @multicluster
    {{- end }}
    kubernetes {{ $domain }} in-addr.arpa ip6.arpa {
        pods insecure
        {{- if $alias }}
        ignore empty_service
        {{- end }}
        fallthrough {{ if $alias }}{{ $domain }} {{ end }}in-addr.arpa ip6.arpa
        ttl 30
    }
    {{- include "multicluster.plugin" (dict "dns" .Values.dns "zones" .Values.dns.plugin.zones) | nindent 4 }}
    prometheus :9153
    forward . {{ join " " (.Values.dns.upstreams | default (list "/etc/resolv.conf")) }} {
        max_concurrent 1000
    }
    cache 30 {
        disable success {{ $domain }}
        disable denial {{ $domain }}
    }
    loop
    reload
    loadbalance
}
{{- end }}

{{/* Egress to API servers, of a NetworkPolicy. */}}
{{- define "multicluster.toAPIServers" -}}
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
  {{- with .Values.networkPolicy.apiServers }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  {{- end }}
{{- end }}

{{/* Egress to DNS servers: in the cluster, on the node, outside. */}}
{{- define "multicluster.toNameServers" -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}

{{/* Egress to upstreams on other ports: the port of the upstream, as in [2001:db8::1%tls-name]:5353, or the port of its protocol. */}}
{{- define "multicluster.toUpstreams" -}}
{{- $ports := list }}
{{- range .Values.dns.upstreams }}
{{- $protocol := regexFind "^[a-z]+://" . }}
{{- $address := regexReplaceAll "%[^]:]*" (trimPrefix $protocol .) "" }}
{{- $named := regexFind "^([^:]+|\\[.*\\]):[0-9]+$" $address | regexFind "[0-9]+$" }}
{{- $ports = append $ports ($named | default (get (dict "tls://" "853" "quic://" "853" "https://" "443") $protocol) | default "53") }}
{{- end }}
{{- with without (uniq $ports) "53" -}}
- ports:
    {{- range . }}
    - port: {{ . }}
      protocol: UDP
    - port: {{ . }}
      protocol: TCP
    {{- end }}
{{- end }}
{{- end }}

{{/* The ClusterIPs of a Service of this release, which Helm deletes when the release no longer contains it. Without a cluster (helm template), lookup returns nothing. */}}
{{- define "multicluster.deletedAddresses" -}}
{{- $service := lookup "v1" "Service" .namespace .name }}
{{- $marks := dig "metadata" "annotations" dict $service }}
{{- $ours := and (eq (get $marks "meta.helm.sh/release-name") .root.Release.Name) (eq (get $marks "meta.helm.sh/release-namespace") .root.Release.Namespace) }}
{{- if and $ours (ne (get $marks "helm.sh/resource-policy") "keep") }}
{{- join " " (dig "spec" "clusterIPs" list $service) }}
{{- end }}
{{- end }}

{{- /* The version of the cluster's own CoreDNS, such as 1.12.2, or nothing: helm template does not read the cluster, and an image can have another tag. */}}
{{- define "multicluster.coreDNSVersion" -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Values.dns.account.namespace "coredns" }}
{{- range (dig "spec" "template" "spec" "containers" list $deployment) }}
{{- if eq .name "coredns" }}
{{- regexFind "[0-9]+[.][0-9]+[.][0-9]+" (regexFind ":v?[0-9]+[.][0-9]+[.][0-9]+[^/]*$" .image) }}
{{- end }}
{{- end }}
{{- end }}
