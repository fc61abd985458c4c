package chain

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const forwarding = ".:53 {\n kubernetes cluster.local\n forward . /etc/resolv.conf\n}\nclusterset.local:53 {\n forward . 10.0.0.53\n}\n"

// good are facts of a chain that is whole: member1 exports default/foo, and member2 asks.
func good() *Facts {
	ip := netip.MustParseAddr("10.0.0.9")
	yes := Answer{Code: "NOERROR", Addresses: []netip.Addr{ip}}
	meta := metav1.ObjectMeta{Name: "foo", Namespace: "default"}
	ours := meta
	ours.Labels = map[string]string{"app.kubernetes.io/managed-by": "multicluster-controller"}
	namespace := Read[*corev1.Namespace]{Value: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "foo-1", Labels: map[string]string{mcsv1beta1.LabelSourceCluster: "member1"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.5"}}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
	}
	return &Facts{
		Name: Name{Text: "foo.default.svc.clusterset.local", Zone: ClustersetZone, Service: "foo", Namespace: "default"}, PodNamespace: "default",
		Here: Cluster{
			Context: "two", ID: "member2", Installed: true, Now: now, Heartbeat: now, Version: Read[string]{Value: "v1beta1"}, Namespace: namespace,
			Import: Read[*mcsv1beta1.ServiceImport]{Value: &mcsv1beta1.ServiceImport{
				ObjectMeta: ours,
				Spec:       mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.0.0.9"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
				Status: mcsv1beta1.ServiceImportStatus{
					Clusters:   []mcsv1beta1.ClusterStatus{{Cluster: "member1"}},
					Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"}},
				},
			}},
			Derived: Read[*corev1.Service]{Value: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "derived-foo"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.9"}}}},
			Slices:  Read[[]discoveryv1.EndpointSlice]{Value: []discoveryv1.EndpointSlice{slice}},
			Peers:   Read[[]Peer]{Value: []Peer{{ID: "member1", HasSecret: true, HasLease: true, Connected: true, Reason: "Connected", DataPath: "Proven"}}},
		},
		DNS: DNS{
			Asked: "foo.default.svc.clusterset.local", Corefile: Read[string]{Value: forwarding}, Address: Read[string]{Value: "10.0.0.10"},
			Second: Read[[]SecondServer]{Value: []SecondServer{{Namespace: "multicluster-dns", Name: "multicluster-dns", Address: "10.0.0.53"}}},
			Servers: Read[[]Server]{Value: []Server{
				{Namespace: "kube-system", Pod: "coredns-0", Ready: true, Answer: yes},
				{Namespace: "multicluster-dns", Pod: "multicluster-dns-0", Second: true, Ready: true, Answer: yes},
			}},
		},
		Others: []Cluster{{
			Context: "one", ID: "member1", Installed: true, Now: now, Heartbeat: now, Version: Read[string]{Value: "v1beta1"}, Namespace: namespace,
			Export: Read[*mcsv1beta1.ServiceExport]{Value: &mcsv1beta1.ServiceExport{ObjectMeta: meta, Status: mcsv1beta1.ServiceExportStatus{Conditions: []metav1.Condition{
				{Type: "Valid", Status: metav1.ConditionTrue, Reason: "Valid"}, {Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready"},
			}}}},
			Service: Read[*corev1.Service]{Value: &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "foo"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
			}}},
			Endpoints: Read[[]discoveryv1.EndpointSlice]{Value: []discoveryv1.EndpointSlice{slice}},
		}},
	}
}

// nothing removes the import, and lets the DNS servers know nothing of it.
func nothing(f *Facts) {
	f.Here.Import.Value, f.Here.Derived.Value, f.Here.Slices.Value = nil, nil, nil
	answers(f, Answer{Code: "NXDOMAIN", Zone: ClustersetZone})
}

func answers(f *Facts, a Answer) {
	for i := range f.DNS.Servers.Value {
		f.DNS.Servers.Value[i].Answer = a
	}
}

// ask sets the name.
func ask(f *Facts, text string) {
	name, err := ParseName(text, "default")
	if err != nil {
		panic(err)
	}
	f.Name = name
}

func ready(f *Facts, reason string) {
	f.Here.Import.Value.Status.Conditions[0] = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: "see here"}
}

// headless makes the import one of type Headless, with one endpoint db-0 of member1.
func headless(f *Facts) {
	f.Here.Import.Value.Spec.Type, f.Here.Import.Value.Spec.IPs = mcsv1beta1.Headless, nil
	f.Here.Slices.Value[0].Endpoints[0].Hostname = new("db-0")
	answers(f, Answer{Code: "NOERROR", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.5")}})
}

func peer(f *Facts, reason string) {
	f.Here.Peers.Value[0].Connected, f.Here.Peers.Value[0].Reason, f.Here.Peers.Value[0].Message = false, reason, "see here"
}

// Each case changes one thing, or a cause with its consequences.
func TestCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string // the cause, or the result if there is none
		also   []string
	}{
		"nothing is wrong":                           {func(*Facts) {}, ResultWhole, nil},
		"a headless import":                          {headless, ResultWhole, nil},
		"the name of an endpoint":                    {func(f *Facts) { headless(f); ask(f, "db-0.member1.foo.default.svc.clusterset.local") }, ResultWhole, nil},
		"the name of an endpoint that is not":        {func(f *Facts) { headless(f); ask(f, "db-9.member1.foo.default.svc.clusterset.local") }, "UnknownEndpoint", nil},
		"the name of an endpoint of no cluster":      {func(f *Facts) { headless(f); ask(f, "db-0.member9.foo.default.svc.clusterset.local") }, "UnknownEndpoint", nil},
		"the name of an endpoint of another cluster": {func(f *Facts) { headless(f); ask(f, "db-0.member2.foo.default.svc.clusterset.local") }, "UnknownEndpoint", nil},
		"the name of an endpoint of no cluster, without an import": {func(f *Facts) {
			headless(f)
			nothing(f)
			peer(f, "Unauthorized")
			ask(f, "db-0.member9.foo.default.svc.clusterset.local")
		}, "PeerUnauthorized", nil},
		"the name of an endpoint of a lost peer": {func(f *Facts) {
			headless(f)
			f.Here.Peers.Value = append(f.Here.Peers.Value, Peer{ID: "member9", HasSecret: true, Reason: "Unauthorized"})
			ask(f, "db-0.member9.foo.default.svc.clusterset.local")
		}, "PeerUnauthorized", nil},
		"an endpoint of a ClusterSetIP": {func(f *Facts) { ask(f, "db-0.member1.foo.default.svc.clusterset.local") }, "NotHeadless", nil},
		"a port": {func(f *Facts) {
			ask(f, "_http._tcp.foo.default.svc.clusterset.local")
			answers(f, Answer{Code: "NOERROR", Targets: []string{"80 foo."}})
		}, ResultWhole, nil},
		"a port that is not": {func(f *Facts) {
			ask(f, "_http._udp.foo.default.svc.clusterset.local")
			answers(f, Answer{Code: "NXDOMAIN", Zone: ClustersetZone})
		}, "UnknownPort", nil},
		"a short name": {func(f *Facts) { ask(f, "foo.default.svc") }, "NoSearchEntry", nil},
		"a short name that the API server injects": {func(f *Facts) { ask(f, "foo.default.svc"); f.Injected = []string{ClustersetZone} }, ResultWhole, nil},
		"a dot at the end":                         {func(f *Facts) { ask(f, "foo.default.svc.") }, "AbsoluteName", nil},
		"a complete name with a dot":               {func(f *Facts) { ask(f, "foo.default.svc.clusterset.local.") }, ResultWhole, nil},
		"the name of one cluster":                  {func(f *Facts) { ask(f, "foo.default.svc.cluster.local") }, "ClusterLocalName", nil},
		"alias": {func(f *Facts) {
			ask(f, "foo")
			f.DNS.Corefile.Value = ".:53 {\n kubernetes cluster.local\n multicluster clusterset.local {\n alias cluster.local\n }\n}"
		}, ResultWhole, nil},
		"autopath": {func(f *Facts) {
			ask(f, "foo.default.svc")
			f.DNS.Corefile.Value = ".:53 {\n autopath @multicluster\n multicluster clusterset.local\n}"
		}, ResultWhole, nil},
		"autopath completes no shorter name": {func(f *Facts) {
			ask(f, "foo")
			f.DNS.Corefile.Value = ".:53 {\n autopath @multicluster\n multicluster clusterset.local\n}"
		}, "NoSearchEntry", nil},
		"a local Service comes first": {func(f *Facts) {
			ask(f, "foo")
			f.Here.Service, f.Here.Endpoints = f.Others[0].Service, f.Others[0].Endpoints
		}, ResultWhole, nil},
		"a local Service without endpoints": {func(f *Facts) { ask(f, "foo"); f.Here.Service = f.Others[0].Service }, "LocalService", nil},
		"a local Service that cannot be read": {func(f *Facts) {
			ask(f, "foo")
			f.Here.Service.Error = "forbidden"
		}, ResultUnknown, nil},
		"a local Service that cannot be read, and a pod": {func(f *Facts) {
			ask(f, "foo.default.svc")
			f.Pod = pod(corev1.DNSClusterFirst, "", ClustersetZone)
			f.Here.Service.Error = "forbidden"
		}, ResultUnknown, nil},
		"a local Service that cannot be read, and autopath": {func(f *Facts) {
			ask(f, "foo.default.svc")
			f.DNS.Corefile.Value = ".:53 {\n autopath @multicluster\n multicluster clusterset.local\n}"
			f.Here.Service.Error = "forbidden"
		}, ResultUnknown, nil},
		"a local Service does not matter": {func(f *Facts) { f.Here.Service.Error = "forbidden" }, ResultWhole, nil},
		"endpoints of a local Service that cannot be read": {func(f *Facts) {
			ask(f, "foo.default.svc")
			f.Here.Service = f.Others[0].Service
			f.DNS.Corefile.Value = ".:53 {\n kubernetes cluster.local {\n ignore empty_service\n }\n multicluster clusterset.local {\n alias cluster.local\n }\n}"
			f.Here.Endpoints.Error = "forbidden"
		}, ResultUnknown, nil},
		"a local Service, and a pod with name servers of its own": {func(f *Facts) {
			ask(f, "foo.default.svc")
			f.Here.Service, f.Here.Endpoints = f.Others[0].Service, f.Others[0].Endpoints
			f.Pod = pod(corev1.DNSNone, "", ClusterZone)
			f.Pod.Spec.DNSConfig.Nameservers = []string{"192.0.2.1"}
		}, "PodDNS", nil},
		"ndots":                     {func(f *Facts) { ask(f, "foo.default.svc"); f.Pod = pod(corev1.DNSClusterFirst, "1", ClustersetZone) }, ResultWhole, []string{"NDots"}},
		"a pod without the suffix":  {func(f *Facts) { ask(f, "foo.default.svc"); f.Pod = pod(corev1.DNSClusterFirst, "") }, "NoSearchEntry", nil},
		"a pod with the node's DNS": {func(f *Facts) { f.Pod = pod(corev1.DNSDefault, "") }, "PodDNS", nil},
		"a pod with name servers of its own": {func(f *Facts) {
			f.Pod = pod(corev1.DNSNone, "")
			f.Pod.Spec.DNSConfig.Nameservers = []string{"192.0.2.1"}
		}, "PodDNS", nil},
		"no server block": {func(f *Facts) {
			f.DNS.Corefile.Value = ".:53 {\n forward . /etc/resolv.conf\n}"
			f.DNS.Servers.Value[0].Answer = Answer{Code: "NXDOMAIN"}
		}, "NoForwardBlock", nil},
		"no server block and no second server": {func(f *Facts) {
			f.DNS.Corefile.Value = ".:53 {\n}"
			f.DNS.Second.Value, f.DNS.Servers.Value = nil, f.DNS.Servers.Value[:1]
			f.DNS.Servers.Value[0].Answer = Answer{Code: "NXDOMAIN"}
		}, "NoDNSForZone", nil},
		"an invalid Corefile": {func(f *Facts) { f.DNS.Corefile.Value = ".:53 {" }, "InvalidCorefile", nil},
		"a forward to nobody": {func(f *Facts) {
			f.DNS.Second.Value[0].Address = "10.0.0.54"
			f.DNS.Servers.Value[0].Answer = Answer{Code: "SERVFAIL"}
		}, "ForwardElsewhere", nil},
		"NodeLocal without a block": {func(f *Facts) {
			f.DNS.NodeLocal.Value = "cluster.local:53 {\n bind 169.254.20.10\n forward . 10.0.0.12\n}"
		}, "NodeLocalNoStanza", nil},
		"one server knows another address": {func(f *Facts) {
			f.DNS.Servers.Value[1].Answer.Addresses = []netip.Addr{netip.MustParseAddr("10.0.0.8")}
		}, "StaleDNSServer", nil},
		"one server is down": {func(f *Facts) {
			f.DNS.Servers.Value = append(f.DNS.Servers.Value, Server{Second: true, Namespace: "x", Pod: "y"})
		}, ResultBroken, nil},
		"all second servers are down": {func(f *Facts) {
			f.DNS.Servers.Value[1].Ready = false
			f.DNS.Servers.Value[0].Answer = Answer{Code: "SERVFAIL"}
		}, "SecondDNSNotReady", nil},
		"all own servers are down": {func(f *Facts) { f.DNS.Servers.Value[0].Ready = false }, "DNSNotReady", nil},
		"an image without the plugin": {func(f *Facts) {
			f.DNS.Servers.Value[0].Ready, f.DNS.Servers.Value[0].Log.Value = false, "Corefile:3 - Error during parsing: Unknown directive 'multicluster'"
		}, "PluginMissing", nil},
		"SERVFAIL without rights": {func(f *Facts) {
			answers(f, Answer{Code: "SERVFAIL"})
			f.DNS.Servers.Value[1].Account = "multicluster-dns"
		}, "PluginRights", nil},
		"SERVFAIL":                      {func(f *Facts) { answers(f, Answer{Code: "SERVFAIL"}) }, "DNSServerFails", nil},
		"a Corefile that is not loaded": {func(f *Facts) { f.DNS.Servers.Value[0].Answer = Answer{Code: "REFUSED"} }, "CorefileNotLoaded", nil},
		"an old log, and a Corefile without the plugin": {func(f *Facts) {
			f.DNS.Servers.Value[0].Answer, f.DNS.Servers.Value[0].Log.Value = Answer{Code: "REFUSED"}, "Unknown directive 'multicluster'"
		}, "CorefileNotLoaded", nil},
		"no server can be asked":      {func(f *Facts) { answers(f, Answer{NotAsked: "forbidden"}) }, ResultUnknown, nil},
		"the Corefile cannot be read": {func(f *Facts) { f.DNS.Corefile = Read[string]{Error: "forbidden"} }, ResultUnknown, nil},
		"the import cannot be read":   {func(f *Facts) { f.Here.Import = Read[*mcsv1beta1.ServiceImport]{Error: "forbidden"} }, ResultUnknown, nil},
		"the peers cannot be read":    {func(f *Facts) { f.Here.Peers = Read[[]Peer]{Error: "forbidden"} }, ResultUnknown, nil},
		"no CRD":                      {func(f *Facts) { nothing(f); f.Here.Version.Value = "" }, "NoCRD", nil},
		"no namespace":                {func(f *Facts) { nothing(f); f.Here.Namespace.Value = nil }, "NamespaceMissing", nil},
		"no export":                   {func(f *Facts) { nothing(f); f.Others[0].Export.Value = nil }, "NoExport", nil},
		"no export, and a context that cannot be read": {func(f *Facts) {
			nothing(f)
			f.Others[0].Export.Value = nil
			f.Unread = map[string]string{"three": "no route to host"}
		}, ResultBroken, nil},
		"a peer explains it, and a context cannot be read": {func(f *Facts) {
			nothing(f)
			f.Others[0].Export.Value = nil
			peer(f, "Unauthorized")
			f.Unread = map[string]string{"three": "no route to host"}
		}, "PeerUnauthorized", nil},
		"no export, and an unread peer": {func(f *Facts) { nothing(f); f.Others = nil }, ResultBroken, nil},
		"no controller here":            {func(f *Facts) { nothing(f); f.Here.ID = "" }, "NoController", nil},
		"a silent controller here":      {func(f *Facts) { nothing(f); f.Here.Heartbeat = now.Add(-time.Hour) }, "ControllerSilent", nil},
		"a silent controller beside":    {func(f *Facts) { f.Here.Heartbeat = now.Add(-time.Hour) }, ResultWhole, []string{"ControllerSilent"}},
		"each cluster has its clock": {func(f *Facts) {
			nothing(f)
			f.Here.Now, f.Here.Heartbeat = now.Add(time.Hour), now.Add(time.Hour)
		}, "ImportMissing", nil},
		"a token that did not expire by the clock of the peer": {func(f *Facts) {
			nothing(f)
			peer(f, "Unauthorized")
			f.Here.Now, f.Here.Heartbeat, f.Here.Peers.Value[0].TokenExpiry = now.Add(time.Hour), now.Add(time.Hour), now.Add(time.Minute)
		}, "PeerUnauthorized", nil},
		"no import for no reason": {nothing, "ImportMissing", nil},
		"a foreign Service":       {func(f *Facts) { ready(f, "ForeignService") }, "ForeignService", nil},
		"an unknown reason":       {func(f *Facts) { ready(f, "Tomorrow") }, "ImportNotReady", nil},
		"a pending import": {func(f *Facts) {
			ready(f, "Pending")
			f.Here.Import.Value.Spec.IPs = nil
			answers(f, Answer{Code: "NOERROR"})
		}, "ImportPending", nil},
		"no derived Service": {func(f *Facts) { f.Here.Derived.Value = nil }, "DerivedMissing", nil},
		"another address":    {func(f *Facts) { f.Here.Derived.Value.Spec.ClusterIPs[0] = "10.0.0.7" }, "AddressDiffers", nil},
		"no slices":          {func(f *Facts) { f.Here.Slices.Value = nil }, "SlicesMissing", nil},
		"a token that expired": {func(f *Facts) {
			nothing(f)
			peer(f, "Unauthorized")
			f.Here.Peers.Value[0].TokenExpiry = now.Add(-time.Second)
		}, "PeerTokenExpired", nil},
		"a peer that is not read explains all": {func(f *Facts) { nothing(f); peer(f, "Unauthorized") }, "PeerUnauthorized", nil},
		"a peer without a context":             {func(f *Facts) { nothing(f); peer(f, "Unauthorized"); f.Others = nil }, "PeerUnauthorized", nil},
		"a new reason":                         {func(f *Facts) { peer(f, "Tomorrow") }, "PeerUnknownReason", nil},
		"no peer":                              {func(f *Facts) { nothing(f); f.Here.Peers.Value = nil }, "PeerMissing", nil},
		"a silent peer explains its export": {func(f *Facts) {
			nothing(f)
			peer(f, "ControllerSilent")
			f.Others[0].Export.Value.Status.Conditions = nil
		}, "PeerControllerSilent", nil},
		"an export that no controller has seen": {func(f *Facts) { nothing(f); f.Others[0].Export.Value.Status.Conditions = nil }, "ExportPending", nil},
		"an export to others": {func(f *Facts) {
			nothing(f)
			f.Others[0].Export.Value.Annotations = map[string]string{"clusterset-dns.io/to-clusters": "member3"}
		}, "NotForThisCluster", nil},
		"a namespace that is not exported": {func(f *Facts) { nothing(f); f.Others[0].Limited = true }, "NamespaceNotExported", nil},
		"no pods":                          {func(f *Facts) { f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil }, "NoPods", nil},
		"no pods, and a context without an ID that cannot be read": {func(f *Facts) {
			f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil
			f.Others = append(f.Others, Cluster{Context: "three", Installed: true, Export: Read[*mcsv1beta1.ServiceExport]{Error: "forbidden"}})
		}, "NoPods", nil},
		"no pods, and a cluster with some is not joined": {func(f *Facts) {
			f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil
			f.Others = append(f.Others, good().Others[0])
			f.Others[1].Context, f.Others[1].ID = "three", "member3"
		}, "NoPods", []string{"PeerMissing"}},
		"a cluster that need not be joined": {func(f *Facts) {
			f.Others = append(f.Others, good().Others[0])
			f.Others[1].Context, f.Others[1].ID = "three", "member3"
		}, ResultWhole, []string{}},
		"a cluster that is not joined, and exports to others": {func(f *Facts) {
			f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil
			f.Others = append(f.Others, good().Others[0])
			f.Others[1].Context, f.Others[1].ID = "three", "member3"
			f.Others[1].Export.Value.Annotations = map[string]string{"clusterset-dns.io/to-clusters": "member1"}
		}, "NoPods", []string{}},
		"no pods of a headless name": {func(f *Facts) {
			headless(f)
			f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil
			answers(f, Answer{Code: "NXDOMAIN", Zone: ClustersetZone})
		}, "NoPods", nil},
		"an unready pod": {func(f *Facts) {
			f.Others[0].Endpoints.Value[0].Endpoints[0].Conditions.Ready = new(false)
			f.Here.Slices.Value[0].Endpoints[0].Conditions.Ready = new(false)
		}, "NoReadyEndpoints", nil},
		"no pod has the targetPort":                                  {portless, "NoEndpointPorts", nil},
		"no pod has the targetPort, and the exporter has no context": {func(f *Facts) { portless(f); f.Others = nil }, "NoEndpointPorts", nil},
		"no pod has the targetPort, and another cluster has some": {func(f *Facts) {
			other := f.Here.Slices.Value[0]
			portless(f)
			f.Here.Slices.Value = append(f.Here.Slices.Value, other)
		}, ResultWhole, []string{"NoEndpointPorts"}},
		"one of two ports": {func(f *Facts) {
			f.Others[0].Service.Value.Spec.Ports = append(f.Others[0].Service.Value.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 81})
		}, ResultWhole, []string{"NoEndpointPorts"}},
		"one of two ports, by its name": {func(f *Facts) {
			metrics := corev1.ServicePort{Name: "metrics", Port: 81}
			f.Others[0].Service.Value.Spec.Ports = append(f.Others[0].Service.Value.Spec.Ports, metrics)
			f.Here.Import.Value.Spec.Ports = append(f.Here.Import.Value.Spec.Ports, mcsv1beta1.ServicePort{Name: "metrics", Port: 81})
			ask(f, "_metrics._tcp.foo.default.svc.clusterset.local")
		}, "NoEndpointPorts", nil},
		"one of two ports, by its name, and another cluster has it": {func(f *Facts) {
			f.Others[0].Service.Value.Spec.Ports = append(f.Others[0].Service.Value.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 81})
			f.Here.Import.Value.Spec.Ports = append(f.Here.Import.Value.Spec.Ports, mcsv1beta1.ServicePort{Name: "metrics", Port: 81})
			other := f.Here.Slices.Value[0]
			other.Ports = []discoveryv1.EndpointPort{{Name: new("metrics")}}
			f.Here.Slices.Value = append(slices.Clone(f.Here.Slices.Value), other)
			answers(f, Answer{Code: "NOERROR", Targets: []string{"81 foo."}})
			ask(f, "_metrics._tcp.foo.default.svc.clusterset.local")
		}, ResultWhole, []string{"NoEndpointPorts"}},
		"the pods of a headless name need no port": {func(f *Facts) {
			headless(f)
			portless(f)
			f.Others[0].Service.Value.Spec.ClusterIP = corev1.ClusterIPNone
		}, ResultWhole, nil},
		"no pods, and another cluster has some":   {func(f *Facts) { f.Others[0].Endpoints.Value = nil }, ResultWhole, nil},
		"overlapping networks":                    {func(f *Facts) { overlapping(f); f.Here.Peers.Value[0].DataPath = "Unknown" }, "OverlappingNetworks", nil},
		"overlapping networks that are connected": {overlapping, ResultWhole, nil},
		"a conflict": {func(f *Facts) {
			f.Others[0].Export.Value.Status.Conditions = append(f.Others[0].Export.Value.Status.Conditions, metav1.Condition{Type: "Conflict", Status: metav1.ConditionTrue, Reason: "PortConflict"})
		}, ResultWhole, []string{"Conflict"}},
		"two independent faults: the first of data": {func(f *Facts) { nothing(f); f.Here.Namespace.Value = nil; f.DNS.Corefile.Value = ".:53 {\n}" }, "NamespaceMissing", []string{"NoForwardBlock"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := good()
			c.change(f)
			r := Walk(f)
			got := r.Result
			if r.Cause != nil {
				got = r.Cause.ID
			}
			if got != c.want && (c.want != ResultBroken || r.Cause != nil) {
				t.Errorf("got %s, want %s\n%+v\n%+v", got, c.want, r.Links, r.Cause)
			}
			var also []string
			for _, p := range r.Also {
				also = append(also, p.ID)
			}
			if c.also != nil && !slices.Equal(also, c.also) {
				t.Errorf("also %v, want %v", also, c.also)
			}
			check(t, r)
		})
	}
}

// Without a right to read Secrets, it is not known what the peer may export. It matters if nothing arrives.
func TestUnknownLimits(t *testing.T) {
	for arrived, want := range map[bool]bool{true: false, false: true} {
		f := good()
		f.Here.Peers.Value[0].SecretsUnknown = true
		if !arrived {
			f.Here.Slices.Value = nil
		}
		links := Walk(f).Links
		if got := slices.ContainsFunc(links, func(l Link) bool { return l.Link == "limits of peer member1" && l.State == Unknown }); got != want {
			t.Errorf("arrived %v: %+v", arrived, links)
		}
	}
}

// A lost peer does not take its endpoints away at once.
func TestTrafficOfALostPeer(t *testing.T) {
	const no, maybe, yes = "the name does not lead to an endpoint", "it is not known whether the name leads to an endpoint", "the name leads to endpoints, with what was read before"
	for name, c := range map[string]struct {
		change func(*Facts)
		want   string
	}{
		"its endpoints are kept":         {func(*Facts) {}, yes},
		"its endpoints are removed":      {nothing, no},
		"and there is no server block":   {func(f *Facts) { f.DNS.Corefile.Value = ".:53 {\n}" }, no},
		"and no DNS server can be asked": {func(f *Facts) { answers(f, Answer{NotAsked: "forbidden"}) }, maybe},
		"and the slices cannot be read":  {func(f *Facts) { f.Here.Slices = Read[[]discoveryv1.EndpointSlice]{Error: "forbidden"} }, maybe},
	} {
		f := good()
		peer(f, "Unreachable")
		c.change(f)
		r := Walk(f)
		if last := r.Links[len(r.Links)-1]; last.Link != "traffic" || last.Detail != c.want || r.Cause.ID != "PeerUnreachable" || r.Result != ResultBroken {
			t.Errorf("%s: got %q, want %q: %+v", name, last.Detail, c.want, r.Cause)
		}
	}
}

// check looks at what every report must have.
func check(t *testing.T, r *Report) {
	t.Helper()
	if r.Result == ResultWhole && r.Cause != nil {
		t.Errorf("the chain is whole, and there is the cause %s", r.Cause.ID)
	}
	if r.Cause == nil {
		return
	}
	if _, known := causes[r.Cause.ID]; !known {
		t.Errorf("the cause %s has no place in the documents", r.Cause.ID)
	}
	if len(r.Cause.Fix) == 0 && r.Cause.Advice == "" {
		t.Errorf("the cause %s has neither a fix nor advice", r.Cause.ID)
	}
	if !slices.ContainsFunc(r.Links, func(l Link) bool { return l.State == Broken }) {
		t.Errorf("the cause %s is of no broken link", r.Cause.ID)
	}
}

func pod(policy corev1.DNSPolicy, ndots string, searches ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "client"}}
	p.Spec.DNSPolicy, p.Spec.DNSConfig = policy, &corev1.PodDNSConfig{Searches: searches}
	if ndots != "" {
		p.Spec.DNSConfig.Options = []corev1.PodDNSConfigOption{{Name: "ndots", Value: &ndots}}
	}
	return p
}

// portless gives a Service a targetPort that no pod has.
func portless(f *Facts) {
	f.Others[0].Endpoints.Value = slices.Clone(f.Others[0].Endpoints.Value)
	f.Here.Slices.Value = slices.Clone(f.Here.Slices.Value)
	f.Others[0].Service.Value.Spec.Ports[0].TargetPort = intstr.FromString("web")
	f.Others[0].Endpoints.Value[0].Ports, f.Here.Slices.Value[0].Ports = nil, nil
}

func overlapping(f *Facts) {
	f.Here.Networks.Value.Pods = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	f.Others[0].Networks.Value.Pods = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/20")}
}

func TestParseName(t *testing.T) {
	for text, want := range map[string]Name{
		"foo":                                   {Text: "foo", Service: "foo", Namespace: "shop"},
		"foo.default":                           {Text: "foo.default", Service: "foo", Namespace: "default"},
		"foo.default.svc":                       {Text: "foo.default.svc", Service: "foo", Namespace: "default"},
		"FOO.default.svc.cluster.local":         {Text: "foo.default.svc.cluster.local", Zone: ClusterZone, Service: "foo", Namespace: "default"},
		"foo.default.svc.clusterset.local.":     {Text: "foo.default.svc.clusterset.local", Absolute: true, Zone: ClustersetZone, Service: "foo", Namespace: "default"},
		"_http._tcp.foo.default.svc":            {Text: "_http._tcp.foo.default.svc", Service: "foo", Namespace: "default", Port: "http", Protocol: "tcp"},
		"db-0.a.b.db.default.svc.cluster.local": {Text: "db-0.a.b.db.default.svc.cluster.local", Zone: ClusterZone, Service: "db", Namespace: "default", Host: "db-0", Cluster: "a.b"},
	} {
		if got, err := ParseName(text, "shop"); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "foo.default.svc.example.org", "foo.default.pod", "_http.foo", "_http._icmp.foo.default.svc", "a.b.c", "foo..svc", "foo_bar", "svc.clusterset.local", "*.default.svc"} {
		if got, err := ParseName(text, "shop"); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

// A cluster can have another domain. Its names are refused, with the reason.
func TestOtherClusterDomain(t *testing.T) {
	_, err := ParseName("foo.shop.svc.k8s.example", "default")
	if err == nil || !strings.Contains(err.Error(), "cluster domain") || !strings.Contains(err.Error(), "ask for foo.shop.svc.clusterset.local") {
		t.Error(err)
	}
	for _, text := range []string{"foo.svc.svc.clusterset.local", "foo.svc.svc", "_http._tcp.svc.default"} { // A namespace and a Service called svc.
		if _, err := ParseName(text, "default"); err != nil {
			t.Error(err)
		}
	}
}

// What repairs one direction does not make the other. two reads one, by the contexts.
func TestFixOfOneDirection(t *testing.T) {
	for reason, want := range map[string][]string{
		"Unauthorized":      {"kubectl multicluster rotate two --from one"},
		"SecretMissing":     {"kubectl multicluster join two --from one"},
		"InvalidKubeconfig": {"kubectl multicluster join two --from one"},
		"Leaving":           {"kubectl multicluster join two --from one"},
		"DuplicateCluster":  {"kubectl multicluster leave two --from one", "kubectl multicluster join two --from one"},
		"":                  {"kubectl multicluster join two --from one"}, // no peer at all
	} {
		f := good()
		nothing(f)
		if peer(f, reason); reason == "" {
			f.Here.Peers.Value = nil
		}
		if r := Walk(f); r.Cause == nil || !slices.Equal(r.Cause.Fix, want) {
			t.Errorf("%s: got %+v, want the fix %q", reason, r.Cause, want)
		}
	}
	f := good()
	nothing(f)
	peer(f, "Unauthorized")
	f.Here.Peers.Value[0].TokenExpiry = now.Add(-time.Second)
	if r := Walk(f); r.Cause.ID != "PeerTokenExpired" || !slices.Equal(r.Cause.Fix, []string{"kubectl multicluster rotate two --from one"}) {
		t.Errorf("an expired token: %+v", r.Cause)
	}
	// A reader whose token expires has an account of its own, which deploy/peer does not contain.
	peer(f, "Forbidden")
	f.Here.Peers.Value[0].TokenExpiry = now.Add(time.Hour)
	if r := Walk(f); !slices.Equal(r.Cause.Fix, []string{"kubectl multicluster join two --from one"}) {
		t.Errorf("a forbidden account of its own: %+v", r.Cause)
	}
	f.Here.Peers.Value[0].TokenExpiry = time.Time{}
	if r := Walk(f); len(r.Cause.Fix) != 1 || !strings.Contains(r.Cause.Fix[0], "deploy/peer") {
		t.Errorf("a forbidden shared account: %+v", r.Cause)
	}
}

// A proxy has one address for many clusters. The address of a peer then does not tell which one it is.
func TestSideOfAPeer(t *testing.T) {
	const proxy = "https://proxy.example.org"
	for name, c := range map[string]struct {
		ids  []string // that the clusters behind the address announce
		want string
	}{
		"one cluster with another ID": {[]string{"member1"}, "0"},
		"one cluster without an ID":   {[]string{""}, "0"},
		"the cluster of another peer": {[]string{"member3"}, ""},
		"two clusters":                {[]string{"", ""}, ""},
		"two clusters, one of the ID": {[]string{"member3", "member9"}, "1"},
	} {
		f := good()
		f.Others = nil
		f.Here.Peers.Value = []Peer{{ID: "member9", HasSecret: true, Server: proxy}, {ID: "member3", HasSecret: true, Server: proxy}}
		for i, id := range c.ids {
			f.Others = append(f.Others, Cluster{Context: strconv.Itoa(i), ID: id, Server: proxy})
		}
		got := ""
		if side := (&walk{Facts: f}).sideOf(&f.Here.Peers.Value[0]); side != nil {
			got = side.Context
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// impostor adds a context, before the others in the alphabet, of a second cluster with the ID of member1.
func impostor(f *Facts) {
	f.Here.UID, f.Others[0].UID = "two", "one"
	f.Others = append([]Cluster{{
		Context: "aaa", ID: "member1", UID: "aaa", Installed: true, Now: now, Heartbeat: now,
		Version: Read[string]{Value: "v1beta1"}, Server: "https://aaa", CA: "aaa",
	}}, f.Others...)
	f.Others[1].Server, f.Others[1].CA = "https://one", "one"
}

// Of two clusters with the ID of a peer, the one that the Secret names is the peer.
func TestImpostor(t *testing.T) {
	for name, c := range map[string]struct {
		server, ca, exporter string
		want                 string
	}{
		"the address of the real one":                 {"https://one", "", "one", ResultWhole},
		"the authority of the real one":               {"https://inside", "one", "one", ResultWhole},
		"neither address nor authority, and it works": {"https://inside", "", "", ResultWhole},
	} {
		f := good()
		impostor(f)
		f.Here.Peers.Value[0].Server, f.Here.Peers.Value[0].CA = c.server, c.ca
		r := Walk(f)
		if r.Result != c.want || r.Cause != nil || len(r.Also) != 1 || r.Also[0].ID != "DuplicateID" || !strings.Contains(r.Also[0].What, "aaa, one") {
			t.Errorf("%s: %+v", name, r)
		}
		at := slices.IndexFunc(r.Links, func(l Link) bool { return l.Link == "endpoints" })
		if (at >= 0) != (c.exporter != "") || at >= 0 && r.Links[at].Cluster != c.exporter {
			t.Errorf("%s: the endpoints of %q are expected: %+v", name, c.exporter, r.Links)
		}
	}
	// The Lease names the cluster that the controller is connected to, whatever the Secret has.
	f := good()
	impostor(f)
	f.Others[1].UID, f.Here.Peers.Value[0].UID, f.Here.Peers.Value[0].Server = "one", "one", "https://aaa"
	if r := Walk(f); r.Result != ResultWhole || !slices.ContainsFunc(r.Links, func(l Link) bool { return l.Link == "endpoints" && l.Cluster == "one" }) {
		t.Errorf("the Lease names one: %+v", r)
	}
	// No context is that cluster: an impostor alone does not prove that there is no export.
	nothing(f)
	f.Others = f.Others[:1]
	if r := Walk(f); r.Cause != nil || r.Result != ResultBroken {
		t.Errorf("the Lease names a cluster that no context leads to: %+v", r)
	}
	// Nothing tells which of the two is the peer, and nothing is imported.
	f = good()
	impostor(f)
	nothing(f)
	if r := Walk(f); r.Cause != nil || !slices.ContainsFunc(r.Links, func(l Link) bool {
		return l.State == Unknown && strings.Contains(l.Detail, "aaa, one announce the ID of one peer (member1)")
	}) {
		t.Errorf("no cause can be known: %+v", r)
	}
	// The only context with the ID is of another cluster, and has no export.
	f = good()
	impostor(f)
	f.Others = f.Others[:1]
	f.Here.Peers.Value[0].Server, f.Here.Peers.Value[0].CA = "https://one", "one"
	if r := Walk(f); r.Cause != nil || r.Result != ResultUnknown || len(r.Also) > 0 {
		t.Errorf("no context is the peer: %+v", r)
	}
	f.Others[0].Server = "https://one"
	if r := Walk(f); r.Cause == nil || r.Cause.ID != "NoExport" {
		t.Errorf("the context is the peer: %+v", r)
	}
	// A join would not tell them apart either.
	f = good()
	impostor(f)
	nothing(f)
	f.Here.Peers.Value = nil
	if r := Walk(f); r.Cause == nil || r.Cause.ID != "DuplicateID" || len(r.Cause.Fix) > 0 || len(r.Also) > 0 {
		t.Errorf("an ID that two clusters have, and no peer: %+v", r)
	}
	// Two contexts without a UID can be of one cluster.
	f = good()
	impostor(f)
	f.Others[0].UID, f.Others[1].UID, f.Here.Peers.Value[0].Server = "", "", "https://one"
	if r := Walk(f); r.Result != ResultWhole || len(r.Also) > 0 {
		t.Errorf("contexts without a UID: %+v", r)
	}
}

// A printed command names a context with a comma as a flag with a list reads it.
func TestContextWithAComma(t *testing.T) {
	f := good()
	nothing(f)
	f.Others[0].Context = "a,b"
	f.Here.Peers.Value = nil
	if r := Walk(f); r.Cause == nil || !slices.Equal(r.Cause.Fix, []string{`kubectl multicluster join two --from '"a,b"'`}) {
		t.Errorf("%+v", r.Cause)
	}
}

// A fix does not remove a peer for nothing: the cluster of member3 announces the ID of another peer.
func TestFixKeepsPeers(t *testing.T) {
	f := good()
	impostor(f)
	nothing(f)
	f.Others[1].Export.Value = nil
	f.Here.Peers.Value[0].Server = "https://one"
	f.Here.Peers.Value = append(f.Here.Peers.Value, Peer{ID: "member3", HasSecret: true, HasLease: true, Reason: "WrongID", Server: "https://aaa"})
	r := Walk(f)
	if r.Cause == nil || r.Cause.ID != "PeerWrongID" || len(r.Cause.Fix) > 0 ||
		!strings.Contains(r.Cause.Advice, "--cluster-id=member3") || !strings.Contains(r.Cause.Advice, "removes all that two imports from member3") {
		t.Errorf("%+v", r.Cause)
	}
	// A cluster that is a peer under its right name stays one.
	f.Here.Peers.Value[1].Reason = "DuplicateCluster"
	if r := Walk(f); len(r.Cause.Fix) != 2 || !strings.Contains(r.Cause.Advice, "all that two imports from it") {
		t.Errorf("%+v", r.Cause)
	}
	// One that is not joined yet is joined by the next command.
	f.Here.Peers.Value[1].Reason, f.Others[0].ID = "WrongID", "member4"
	if r := Walk(f); len(r.Cause.Fix) != 3 || r.Cause.Fix[2] != "kubectl multicluster join two --from aaa" {
		t.Errorf("%+v", r.Cause)
	}
}

// A command that lifts a restriction, or deletes an object of somebody else, does not come without a warning.
func TestFixesOfRestrictions(t *testing.T) {
	flag := func(c *Cluster, arg string) {
		c.Controller.Value = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{arg}}}}}}}
	}
	for id, change := range map[string]func(*Facts){
		"PeerLimitNamespaces": func(f *Facts) { f.Here.Peers.Value[0].Annotations = map[string]string{limitNamespaces: "shop"} },
		"NotForThisCluster": func(f *Facts) {
			nothing(f)
			f.Others[0].Export.Value.Annotations = map[string]string{"clusterset-dns.io/to-clusters": "member3"}
		},
		"NamespaceNotExported": func(f *Facts) {
			nothing(f)
			f.Others[0].Limited = true
			flag(&f.Others[0], "--export-namespaces=team=shop")
		},
		"NamespaceNotChosen": func(f *Facts) { nothing(f); flag(&f.Here, "--import-namespaces=team=shop") },
		"ForeignService":     func(f *Facts) { ready(f, "ForeignService") },
		"ExportFailed": func(f *Facts) {
			nothing(f)
			f.Others[0].Export.Value.Status.Conditions[1] = metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Failed", Message: "there is a ServiceImport, and the controller does not manage it"}
		},
	} {
		f := good()
		change(f)
		r := Walk(f)
		if r.Cause == nil || r.Cause.ID != id || len(r.Cause.Fix) != 1 || !strings.Contains(strings.ToLower(r.Cause.Advice), "ask ") || !strings.Contains(r.Cause.Advice, "before you run") {
			t.Errorf("%s: %+v", id, r.Cause)
		}
	}
}

// A name of another domain gets no fix: a namespace com would take over github.com.
func TestNamesOfOtherDomains(t *testing.T) {
	other := func(text string) *Facts {
		f := good()
		nothing(f)
		ask(f, text)
		f.Here.Namespace.Value, f.Others[0].Namespace.Value, f.Others[0].Export.Value, f.Others[0].Service.Value = nil, nil, nil, nil
		return f
	}
	r := Walk(other("google.com"))
	if r.Cause == nil || r.Cause.ID != "NotAServiceName" || len(r.Cause.Fix) > 0 || len(r.Also) > 0 || r.Cause.What != "google.com is not the name of a Service: there is no namespace com in two, one." {
		t.Errorf("%+v", r)
	}
	check(t, r)
	f := other("google.com")
	f.Others[0].Namespace.Error = "forbidden"
	if r := Walk(f); r.Cause == nil || !strings.HasSuffix(r.Cause.What, " in two.") || !strings.Contains(r.Cause.Advice, "could not be read: one") {
		t.Errorf("a cluster that cannot be read: %+v", r.Cause)
	}
	for name, change := range map[string]func(*Facts){
		"the namespace is in another cluster": func(f *Facts) { f.Others[0].Namespace = good().Others[0].Namespace },
		"the namespace cannot be read":        func(f *Facts) { f.Here.Namespace.Error = "forbidden" },
	} {
		f := other("google.com")
		change(f)
		r := Walk(f)
		if r.Cause != nil && r.Cause.ID == "NotAServiceName" {
			t.Errorf("%s: %+v", name, r.Cause)
		}
		for _, p := range append(r.Also, *r.Cause) {
			if len(p.Fix) > 0 {
				t.Errorf("%s: a fix of a name that nobody exports: %+v", name, p)
			}
		}
	}
	// A typing error in the namespace.
	r = Walk(other("foo.nope.svc.clusterset.local"))
	if r.Cause == nil || r.Cause.ID != "NoExport" || len(r.Also) == 0 || r.Also[0].ID != "NamespaceMissing" || len(r.Cause.Fix)+len(r.Also[0].Fix) > 0 {
		t.Errorf("%+v", r)
	}
}

// The suffix svc.clusterset.local has a danger. clusterset.local does not.
func TestWarningOfTheSuffix(t *testing.T) {
	for text, want := range map[string]bool{"foo": true, "foo.default": true, "foo.default.svc": false} {
		f := good()
		ask(f, text)
		if r := Walk(f); r.Cause.ID != "NoSearchEntry" || len(r.Cause.Fix) != 2 || strings.Contains(r.Cause.Advice, "operations/security.md") != want {
			t.Errorf("%s: %+v", text, r.Cause)
		}
	}
	f := good()
	ask(f, "foo.default")
	f.Pod = pod(corev1.DNSClusterFirst, "")
	if r := Walk(f); r.Cause.ID != "NoSearchEntry" || !strings.Contains(r.Cause.Advice, "operations/security.md") || !strings.Contains(r.Cause.Advice, "Create the pod again") {
		t.Errorf("a pod: %+v", r.Cause)
	}
}

// Without a selector, somebody else writes the EndpointSlices, and the pods of the namespace explain nothing.
func TestAdviceWithoutASelector(t *testing.T) {
	for id, change := range map[string]func(*Facts){
		"NoReadyEndpoints": func(f *Facts) { f.Others[0].Endpoints.Value, f.Here.Slices.Value = nil, nil },
		"NoEndpointPorts":  portless,
	} {
		f := good()
		change(f)
		f.Others[0].Service.Value.Spec.Selector = nil
		if r := Walk(f); r.Cause == nil || r.Cause.ID != id || strings.Contains(r.Cause.Advice, "get pods") ||
			!strings.Contains(r.Cause.Advice, "--namespace default get endpointslices -l kubernetes.io/service-name=foo") {
			t.Errorf("%s: %+v", id, r.Cause)
		}
	}
}

// An import without ips and a condition can be another system's: then the controller's log says nothing.
func TestAnImportOfAnotherSystem(t *testing.T) {
	for keeper, mark := range map[string]func(*mcsv1beta1.ServiceImport){
		"": func(*mcsv1beta1.ServiceImport) {},
		"Kosmos": func(imp *mcsv1beta1.ServiceImport) {
			imp.Annotations = map[string]string{"kosmos.io/address": "10.0.0.9"}
		},
		"Karmada": func(imp *mcsv1beta1.ServiceImport) { imp.Labels = map[string]string{"karmada.io/managed": "true"} },
	} {
		f := good()
		imp := f.Here.Import.Value
		imp.Labels, imp.Spec.IPs, imp.Status.Conditions = nil, nil, nil
		mark(imp)
		answers(f, Answer{Code: "NOERROR"})
		r := Walk(f)
		if r.Cause == nil || r.Cause.ID != "ImportWithoutStatus" || strings.Contains(r.Cause.Advice, "log of the controller") != (keeper == "") ||
			!strings.Contains(r.Cause.Advice, keeper) {
			t.Errorf("%q: the cause is %+v", keeper, r.Cause)
		}
	}
}
