package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

func TestUsablePorts(t *testing.T) {
	tcp := func(name string, port int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port}
	}
	for _, test := range []struct {
		name  string
		ports []mcsv1beta1.ServicePort
		want  []corev1.ServicePort
		notes []string // each is part of a note
	}{
		{
			name:  "an empty protocol is TCP (A7)",
			ports: []mcsv1beta1.ServicePort{{Port: 80}},
			want:  []corev1.ServicePort{tcp("", 80)},
		},
		{
			name:  "no ports give none (C15)",
			ports: nil,
			want:  []corev1.ServicePort{},
		},
		{
			name:  "the order of the import is kept",
			ports: []mcsv1beta1.ServicePort{{Name: "b", Port: 2}, {Name: "a", Port: 1}},
			want:  []corev1.ServicePort{tcp("b", 2), tcp("a", 1)},
		},
		{
			name:  "an unnamed port among several gets a name (C12, C15)",
			ports: []mcsv1beta1.ServicePort{{Port: 80}, {Name: "https", Port: 443}, {Name: "dns", Port: 53}},
			want:  []corev1.ServicePort{tcp("unnamed-80-tcp", 80), tcp("https", 443), tcp("dns", 53)},
		},
		{
			name:  "no other port has the name of an unnamed port",
			ports: []mcsv1beta1.ServicePort{{Name: "unnamed-80-tcp", Port: 81}, {Port: 80}},
			want:  []corev1.ServicePort{tcp("unnamed-80-tcp", 81), tcp("unnamed-80-tcp0", 80)},
		},
		{
			name:  "an unnamed port beside a bad one is the only one, and stays",
			ports: []mcsv1beta1.ServicePort{{Port: 80}, {Name: "bad", Port: 0}},
			want:  []corev1.ServicePort{tcp("", 80)},
			notes: []string{"port 0/TCP has an invalid number"},
		},
		{
			name:  "an unnamed port does not shadow the named one of its number",
			ports: []mcsv1beta1.ServicePort{{Port: 80}, {Name: "http", Port: 80}, {Name: "https", Port: 443}},
			want:  []corev1.ServicePort{tcp("http", 80), tcp("https", 443)},
			notes: []string{"port 80/TCP has no name, and a named port has the same number"},
		},
		{
			name:  "of two ports of a name the first, of the older export, stays (C13)",
			ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}, {Name: "http", Port: 8080}},
			want:  []corev1.ServicePort{tcp("http", 80)},
			notes: []string{`port 8080/TCP has the same name "http" as an earlier port`},
		},
		{
			name:  "of two ports of a protocol and number the first stays (C13)",
			ports: []mcsv1beta1.ServicePort{{Name: "http", Port: 80}, {Name: "web", Port: 80}},
			want:  []corev1.ServicePort{tcp("http", 80)},
			notes: []string{`port 80/TCP "web" has the same number as an earlier port`},
		},
		{
			name:  "one number in two protocols is two ports",
			ports: []mcsv1beta1.ServicePort{{Name: "dns", Port: 53}, {Name: "dns-udp", Port: 53, Protocol: corev1.ProtocolUDP}},
			want:  []corev1.ServicePort{tcp("dns", 53), {Name: "dns-udp", Protocol: corev1.ProtocolUDP, Port: 53}},
		},
		{
			name: "garbage costs only its own port",
			ports: []mcsv1beta1.ServicePort{
				{Name: "zero", Port: 0}, {Name: "big", Port: 70000}, {Name: "minus", Port: -1}, {Name: "Bad_Name", Port: 81},
				{Name: "icmp", Port: 82, Protocol: "ICMP"}, {Name: "ok", Port: 83}, {Name: strings.Repeat("x", 64), Port: 84},
			},
			want: []corev1.ServicePort{tcp("ok", 83)},
			notes: []string{"port 0/TCP has an invalid number", "port 70000/TCP has an invalid number", "port -1/TCP has an invalid number",
				`port 81/TCP has the invalid name "Bad_Name"`, "port 82/ICMP has an unknown protocol", "port 84/TCP has the invalid name"},
		},
		{
			name:  "a bad appProtocol costs only itself",
			ports: []mcsv1beta1.ServicePort{{Name: "h2", Port: 80, AppProtocol: new("a b")}},
			want:  []corev1.ServicePort{tcp("h2", 80)},
			notes: []string{"appProtocol of port 80/TCP is invalid"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, notes := usablePorts(test.ports)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ports (-want +got):\n%s", diff)
			}
			if len(notes) != len(test.notes) {
				t.Fatalf("notes: got %q, want %q", notes, test.notes)
			}
			for i, part := range test.notes {
				if !strings.Contains(notes[i], part) {
					t.Errorf("note %d: got %q, want %q in it", i, notes[i], part)
				}
			}
		})
	}
}

func TestMergePorts(t *testing.T) {
	current := []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(80), NodePort: 30080},
		{Name: "web", Protocol: corev1.ProtocolTCP, Port: 81, TargetPort: intstr.FromInt32(8081)},
	}
	for _, test := range []struct {
		name string
		want corev1.ServicePort
		gets corev1.ServicePort
	}{
		{
			name: "an unchanged port stays as it is",
			want: corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80},
			gets: current[0],
		},
		{
			name: "a port of another number keeps its nodePort and gets a new default targetPort",
			want: corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8080},
			gets: corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 8080, NodePort: 30080},
		},
		{
			name: "a port of another number keeps the targetPort that somebody chose",
			want: corev1.ServicePort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 8080},
			gets: corev1.ServicePort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 8080, TargetPort: intstr.FromInt32(8081)},
		},
		{
			name: "a new port brings nothing",
			want: corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443},
			gets: corev1.ServicePort{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff([]corev1.ServicePort{test.gets}, mergePorts(current, []corev1.ServicePort{test.want})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
