package multicluster

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/metadata"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

var _ metadata.Provider = (*Multicluster)(nil)

// In-tree multicluster zones have protocol=<cluster id> and port-name=<host> (peers.md).
func TestMetadata(t *testing.T) {
	for name, want := range map[string]string{
		"foo.default.svc.clusterset.local.":               "namespace=default service=foo",
		"FOO.default.svc.ClusterSet.local.":               "namespace=default service=foo",
		"db-0.east.db.data.svc.clusterset.local.":         "cluster=east endpoint=db-0 namespace=data service=db",
		"db-0.west.example.db.data.svc.clusterset.local.": "cluster=west.example endpoint=db-0 namespace=data service=db",
		"east.db.data.svc.clusterset.local.":              "cluster=east namespace=data service=db",
		"_pg._tcp.db.data.svc.clusterset.local.":          "namespace=data port-name=pg protocol=tcp service=db",
		"_tcp.db.data.svc.clusterset.local.":              "namespace=data protocol=tcp service=db",
		"default.svc.clusterset.local.":                   "namespace=default",
		"foo.default.svc.cluster.local.":                  "namespace=default service=foo",
		"clusterset.local.":                               "",
	} {
		if diff := cmp.Diff(want, said(t, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if labels := labelsOf(t, "www.example.org."); len(labels) > 0 {
		t.Errorf("a name that is not ours has %v", labels)
	}
}

// said is the labels of a name that are not empty, in order.
func said(t *testing.T, name string) string {
	t.Helper()
	labels := labelsOf(t, name)
	if got, want := slices.Sorted(maps.Keys(labels)), slices.Sorted(maps.Keys(metadataOf)); !slices.Equal(got, want) {
		t.Errorf("%s has the labels %v, want %v", name, got, want)
	}
	var parts []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if value := labels[label](); value != "" {
			parts = append(parts, strings.TrimPrefix(label, "multicluster/")+"="+value)
		}
	}
	return strings.Join(parts, " ")
}

func labelsOf(t *testing.T, name string) map[string]metadata.Func {
	t.Helper()
	state := request.Request{W: &test.ResponseWriter{}, Req: new(dns.Msg).SetQuestion(name, dns.TypeA)}
	ctx := handler(oneImport(), fall.Zero).Metadata(metadata.ContextWithMetadata(t.Context()), state)
	return metadata.ValueFuncs(ctx)
}
