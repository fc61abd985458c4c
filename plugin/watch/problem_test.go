package watch

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/lenient"
	"github.com/clusterset-dns/multicluster/internal/reflector"
	"github.com/clusterset-dns/multicluster/test/world/badobjects"
)

// sent is a ServiceImport as it is decoded from an API server's answer.
func sent(t *testing.T, text string) *serviceImport {
	t.Helper()
	decoder := lenient.Serializer[serviceImport]("ServiceImport").SupportedMediaTypes()[0].Serializer
	object, err := runtime.Decode(decoder, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return object.(*serviceImport)
}

func TestUndecodableImportIsOneProblem(t *testing.T) {
	for name, text := range map[string]string{
		"a field of another type": `{"kind": "ServiceImport", "metadata": {"namespace": "ns", "name": "bad"}, "spec": {"type": "ClusterSetIP", "ips": ["10.0.0.1"], "ports": 5}}`,
		"no name":                 `{"kind": "ServiceImport", "metadata": 5}`,
	} {
		got := trimImport(sent(t, text))
		if got.value != nil || len(got.problems) != 1 || got.problems[0].Field != "object" || !got.problems[0].Whole {
			t.Errorf("%s: %+v", name, got)
		}
	}
	in := `{"kind": "ServiceImport", "metadata": {"namespace": "ns", "name": "foo", "deletionTimestamp": "soon", "managedFields": [{"time": "never"}]},
"spec": {"type": "ClusterSetIP", "ips": ["10.0.0.1"], "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 99999999999}}},
"status": {"conditions": [{"lastTransitionTime": "2020-01-01t00:00:00z"}]}}`
	if got := trimImport(sent(t, in)); got.value == nil || len(got.value.IPs) != 1 || len(got.problems) != 0 {
		t.Errorf("an import with oddities in fields that do not count: %+v", got)
	}
}

func TestAnObjectHasAtMostEightProblemsAndACount(t *testing.T) {
	in := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foo"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP}}
	for n := range 100 {
		in.Spec.Ports = append(in.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprint("A", n), Port: 1})
	}
	got := trimImport(slim(t, in)).described()
	if last := got[len(got)-1]; len(got) != 9 || last.Field != "more" || !strings.HasPrefix(last.Detail, "92 more") {
		t.Errorf("%d problems: %+v", len(got), got)
	}
}

func TestTextsOfAnObjectAreClipped(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	in := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foo"}, Spec: mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ClusterSetIP, IPs: []string{long}, Ports: []mcsv1beta1.ServicePort{{Name: long, Port: 1}, {Name: "a", Protocol: corev1.Protocol(long), Port: 1}, {Name: long, Port: 0}}}}
	all := trimImport(slim(t, in)).described()
	in.Spec.Type = mcsv1beta1.ServiceImportType(long)
	all = append(all, trimImport(slim(t, in)).described()...)
	for _, p := range all {
		if len(p.Detail) > 500 || strings.Contains(p.Detail, "\ufffd") {
			t.Errorf("%s: %d bytes: %.600s", p.Field, len(p.Detail), p.Detail)
		}
	}
	if len(all) != 5 {
		t.Errorf("got %+v", all)
	}
}

func TestWhatOneObjectCanCostIsLimited(t *testing.T) {
	slice := trimSlice(badobjects.Slice("ns", "wide", "db", 1000, 8000))
	if len(slice.value.Ports) != maxPorts || len(slice.value.Endpoints) != 1000 || !slices.Equal(fields(slice.problems), []string{"ports"}) {
		t.Errorf("%d ports, %d endpoints, problems %v", len(slice.value.Ports), len(slice.value.Endpoints), slice.problems)
	}
	many := badobjects.Slice("ns", "many", "db", 500, 1)
	for n := range many.Endpoints {
		for m := range 100 {
			many.Endpoints[n].Addresses = append(many.Endpoints[n].Addresses, netip.AddrFrom4([4]byte{11, byte(m), byte(n >> 8), byte(n)}).String())
		}
	}
	if got := trimSlice(many); len(got.value.Endpoints) >= maxAddresses+101 || !slices.Equal(fields(got.problems), []string{"addresses"}) {
		t.Errorf("%d addresses, problems %v", len(got.value.Endpoints), got.problems)
	}
	in := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foo"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP}}
	for n := range 1000 {
		in.Spec.IPs = append(in.Spec.IPs, fmt.Sprintf("10.0.%d.%d", n/250, n%250))
		in.Spec.Ports = append(in.Spec.Ports, mcsv1beta1.ServicePort{Name: fmt.Sprint("p", n), Port: 1})
	}
	if got := trimImport(slim(t, in)); len(got.value.IPs) != maxIPs || len(got.value.Ports) != maxPorts || !slices.Equal(fields(got.problems), []string{"ips", "ports"}) {
		t.Errorf("%d ips, %d ports, problems %v", len(got.value.IPs), len(got.value.Ports), got.problems)
	}
}

// A client that is given such an address talks to itself, or to somebody on its own link. The controller refuses the same ones.
func TestAddressesThatNoServiceCanHaveAreNotAnswered(t *testing.T) {
	in := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foo"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP,
		IPs: []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "10.0.0.1", "fd00::1"}}}
	got := trimImport(slim(t, in))
	if fmt.Sprint(got.value.IPs) != "[10.0.0.1 fd00::1]" || len(got.described()) != 8 { // one address is given in two spellings
		t.Errorf("answers %v, problems %v", got.value.IPs, got.described())
	}
}

// told records the problems that an observer receives.
type told struct {
	heard
	all   [][]Problem
	again int
}

func (o *told) Problems(_, _ string, all []Problem, again bool) {
	o.all = append(o.all, all)
	if again {
		o.again++
	}
}

// The problems of an object are reported when they change. The cost does not grow with their
// number.
func TestProblemsAreComparedAsASet(t *testing.T) {
	o := &told{}
	s := reflector.NewStore(newSink(sliceKind, "", newPublisher(o)))
	slice := func(hostnames ...string) *discoveryv1.EndpointSlice {
		of := badobjects.Slice("ns", "s", "db", len(hostnames), 0)
		for n, hostname := range hostnames {
			of.Endpoints[n].Hostname = &hostname
		}
		return of
	}
	for _, step := range []struct {
		slice       *discoveryv1.EndpointSlice
		told, again int
	}{
		{slice("a_a", "b_b", "c"), 1, 0}, {slice("c", "b_b", "a_a"), 1, 0}, {slice("a_a"), 2, 1}, {slice("a_a", "b_b"), 3, 2}, {slice("a"), 3, 2}, {slice("a_a"), 4, 2},
	} {
		_ = s.Add(step.slice)
		if len(o.all) != step.told || o.again != step.again {
			t.Fatalf("told %d times, %d of them again, want %d and %d: %v", len(o.all), o.again, step.told, step.again, o.all)
		}
	}

	began := time.Now()
	wide := badobjects.All("ns")[2].Objects[0].(*mcsv1beta1.ServiceImport)
	imports := reflector.NewStore(newSink(importKind, "", newPublisher(o)))
	in := slim(t, wide)
	for range 10 {
		_ = imports.Add(in)
	}
	if took := time.Since(began); took > 5*time.Second { // some 30 ms; it were 20 s
		t.Errorf("ten events of an import with %d invalid ports take %v", len(wide.Spec.Ports), took)
	}
}
