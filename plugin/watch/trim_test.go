package watch

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/plugin/index"
)

// slim is an import as it is decoded from what an API server sends.
func slim(t testing.TB, in *mcsv1beta1.ServiceImport) *serviceImport {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := &serviceImport{}
	out.Complete(json.Unmarshal(text, out))
	return out
}

func ptr[T any](v T) *T { return &v }

// fields are those that problems were found in.
func fields(problems []Problem) (names []string) {
	for _, p := range problems {
		names = append(names, p.Field)
	}
	return names
}

func TestLastChange(t *testing.T) {
	early, late := metav1.Unix(1700000000, 0), metav1.Unix(1700000060, 0)
	fields := []metav1.ManagedFieldsEntry{{Time: &early}, {Time: &late}, {}}
	trigger := func(text string) map[string]string {
		return map[string]string{corev1.EndpointsLastChangeTriggerTime: text}
	}
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want time.Time
	}{
		"the last write":                        {metav1.ObjectMeta{ManagedFields: fields}, late.Time},
		"the time of its cause, if it is noted": {metav1.ObjectMeta{ManagedFields: fields, Annotations: trigger("2023-11-14T22:13:20.5Z")}, early.Add(time.Second / 2)},
		"what is no time says nothing":          {metav1.ObjectMeta{ManagedFields: fields, Annotations: trigger("soon")}, late.Time},
		"it may not be known":                   {metav1.ObjectMeta{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lastChange(&test.meta); !got.Equal(test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

var compareAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestTrimImport(t *testing.T) {
	addr := netip.MustParseAddr
	for name, test := range map[string]struct {
		name     string
		spec     mcsv1beta1.ServiceImportSpec
		want     *index.Service // without its key
		problems []string
	}{
		"what an import's answers are made of": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.0.0.1", "fd00::1"}, Ports: []mcsv1beta1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}},
			&index.Service{IPs: []netip.Addr{addr("10.0.0.1"), addr("fd00::1")}, Ports: []index.Port{{Name: "http", Protocol: "tcp", Number: 80}}}, nil},
		"A7 no protocol is TCP": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}}},
			&index.Service{Ports: []index.Port{{Name: "http", Protocol: "tcp", Number: 80}}}, nil},
		"D16 an unnamed port is no problem, and has no SRV": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{{Port: 80}}}, &index.Service{}, nil},
		"C25 a headless import's ips do not count": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.Headless, IPs: []string{"None"}}, &index.Service{Type: index.Headless}, nil},
		"an invalid IP costs itself": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"None", "10.0.0.1", "10.0.0.01", "fe80::1%eth0"}},
			&index.Service{IPs: []netip.Addr{addr("10.0.0.1")}}, []string{"ip", "ip", "ip"}},
		"an IPv4 address in IPv6 form is IPv4": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"::ffff:10.0.0.1"}}, &index.Service{IPs: []netip.Addr{addr("10.0.0.1")}}, nil},
		"an invalid port costs itself": {"foo",
			mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, Ports: []mcsv1beta1.ServicePort{
				{Name: "zero", Port: 0}, {Name: "big", Port: 65536}, {Name: "odd", Protocol: "ICMP", Port: 1}, {Name: "dot.ted", Port: 1},
				{Name: strings.Repeat("n", 63), Port: 1}, {Name: "HTTP", Port: 1}, {Name: "ok", Protocol: corev1.ProtocolSCTP, Port: 65535}}},
			&index.Service{Ports: []index.Port{{Name: "ok", Protocol: "sctp", Number: 65535}}}, []string{"port", "port", "protocol", "portname", "portname", "portname"}},
		"an unknown type cannot be answered":       {"foo", mcsv1beta1.ServiceImportSpec{Type: "Mesh", IPs: []string{"10.0.0.1"}}, nil, []string{"type"}},
		"a name of two labels cannot be asked for": {"foo.bar", mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP}, nil, []string{"name"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := trimImport(slim(t, &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: test.name}, Spec: test.spec}))
			if test.want != nil {
				test.want.Key = index.NewKey("ns", test.name)
			}
			if diff := cmp.Diff(test.want, got.value, compareAddrs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.problems, fields(got.problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTrimSlice(t *testing.T) {
	addr := netip.MustParseAddr
	labels := func(service, cluster string) map[string]string {
		return map[string]string{mcsv1beta1.LabelServiceName: service, mcsv1beta1.LabelSourceCluster: cluster}
	}
	for name, test := range map[string]struct {
		slice    discoveryv1.EndpointSlice
		want     *index.Slice // without its id
		problems []string
	}{
		"ready endpoints, with their hosts and named ports": {discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: ptr("pg"), Port: ptr[int32](5432)}},
			Endpoints: []discoveryv1.Endpoint{
				{Addresses: []string{"10.0.0.1", "10.0.0.2"}, Hostname: ptr("DB-0")},
				{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}},
			}},
			&index.Slice{Service: "db", Cluster: "c1", Ports: []index.Port{{Name: "pg", Protocol: "tcp", Number: 5432}},
				Endpoints: []index.Endpoint{{Hostname: "db-0", Addr: addr("10.0.0.1")}, {Hostname: "db-0", Addr: addr("10.0.0.2")}, {Addr: addr("10.0.0.3")}}}, nil},
		"D6 an endpoint that is not ready has no record": {discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true)}}}},
			&index.Slice{Service: "db", Cluster: "c1"}, nil},
		"D8 a cluster id of two labels": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "East.Example")}},
			&index.Slice{Service: "db", Cluster: "east.example"}, nil},
		"a slice without a cluster id": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "")},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}},
			&index.Slice{Service: "db", Endpoints: []index.Endpoint{{Addr: addr("10.0.0.1")}}}, []string{"cluster"}},
		"a cluster id with an empty label": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "a..b")}},
			&index.Slice{Service: "db"}, []string{"cluster"}},
		"a hostname of 64 characters costs its endpoint": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Hostname: ptr(strings.Repeat("h", 64))}, {Addresses: []string{"10.0.0.2"}}}},
			&index.Slice{Service: "db", Cluster: "c1", Endpoints: []index.Endpoint{{Addr: addr("10.0.0.2")}}}, []string{"hostname"}},
		"an invalid address costs itself": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"nowhere", "10.0.0.2"}}}},
			&index.Slice{Service: "db", Cluster: "c1", Endpoints: []index.Endpoint{{Addr: addr("10.0.0.2")}}}, []string{"ip"}},
		"a port 0 costs itself": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")},
			Ports: []discoveryv1.EndpointPort{{Name: ptr("a"), Port: ptr[int32](0)}, {Name: ptr("b"), Port: ptr[int32](1), Protocol: ptr(corev1.ProtocolUDP)}}},
			&index.Slice{Service: "db", Cluster: "c1", Ports: []index.Port{{Name: "b", Protocol: "udp", Number: 1}}}, []string{"port"}},
		"D25 ports without a name or number have no SRV": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")},
			Ports: []discoveryv1.EndpointPort{{Name: ptr("a")}, {Port: ptr[int32](1)}, {Name: ptr(""), Port: ptr[int32](1)}}},
			&index.Slice{Service: "db", Cluster: "c1"}, nil},
		"addresses that are names are not ours": {discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels("db", "c1")}, AddressType: discoveryv1.AddressTypeFQDN}, nil, nil},
		"a slice of no service is not ours":     {discoveryv1.EndpointSlice{}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.slice.Namespace, test.slice.Name = "ns", "slice"
			got := trimSlice(&test.slice)
			if test.want != nil {
				test.want.SliceID = index.SliceID{Namespace: "ns", Name: "slice"}
			}
			if diff := cmp.Diff(test.want, got.value, compareAddrs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.problems, fields(got.problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
