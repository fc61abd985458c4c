package dns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/world/resolver"
)

// podSearch is the search path that Kubernetes gives to a pod.
const podSearch = "default.svc.cluster.local svc.cluster.local cluster.local"

// wwwExample is an import in a namespace that is called like a top-level domain. Upstream has www.example, too.
var wwwExample = strings.Replace(anImport, "{name: foo}", "{name: www, namespace: example}", 1)

const aLocalWWW = `
apiVersion: v1
kind: Service
metadata: {name: www, namespace: example}
spec: {clusterIP: 10.96.0.102, ports: [{name: http, port: 80}]}
`

// TestImportsChangeNoOutsideName: with clusterset.local on the search path, or autopath, an import cannot take a name of the Internet, as all
// imports' names end in svc. Not even in a namespace that is called like a top-level domain.
func TestImportsChangeNoOutsideName(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(wwwExample)
		for name, search := range map[string]string{"stock": podSearch + " clusterset.local", "autopath": podSearch} {
			w.run(name, func(w *world) {
				w.coreDNS(example(name))
				w.wants("www.example.svc.clusterset.local. A", "NOERROR 10.0.0.77")
				w.searches(search)
				w.resolves("www.example", "192.0.2.4")
				w.resolves("www.example.svc", "10.0.0.77") // the Internet has no names that end in svc
			})
		}
	})
}

// TestNoNameOutsideIsShortened: in each of the ways to find imports, and by each resolver, a name outside the cluster that exists has its
// own address, and one that does not, or whose server fails for a moment, has none: not that of the name without its last label, which
// is somebody else's (coredns#2842). `example` is a namespace as well.
func TestNoNameOutsideIsShortened(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.withKubeProxy()
		lookups := map[string]func(string) string{"glibc": w.getent, "musl": w.musl()}
		for _, way := range ways[1:] {
			w.run(way.name, func(w *world) {
				if way.second != "" {
					w.secondServer(withoutPorts(example(way.second)))
				}
				w.coreDNS(way.corefile)
				w.eventually(foo, func() error { return resolver.Differs("tcp", w.address, foo+" A", "NOERROR 10.0.0.77") })
				for _, namespace := range []string{"default", "example"} {
					w.searches(fmt.Sprintf("%[1]s.svc.cluster.local svc.cluster.local cluster.local %[2]s", namespace, strings.ReplaceAll(way.searches, "NS", namespace)))
					for by, lookup := range lookups {
						for name, want := range outsideAndMissing(by) {
							if got := lookup(name); got != want && (want != "" || !strings.HasPrefix(got, "nothing")) {
								w.Errorf("%s in namespace %s, by %s, is %s; want %q", name, namespace, by, got, want)
							}
						}
					}
				}
				if way.name != "autopath" {
					return // these take seconds, and no other way depends on what upstream answers
				}
				for name, lookup := range map[string]func(string) string{
					"www.example.org.silent": lookups["glibc"], "www.example.org.servfail": lookups["musl"], "foo.default.svc.refused": lookups["musl"],
				} {
					if got := lookup(name); !strings.HasPrefix(got, "nothing") {
						w.Errorf("%s is %s", name, got)
					}
				}
			})
		}
	})
}

// outsideAndMissing are names with one to five labels, and their addresses, or "" for none.
func outsideAndMissing(by string) map[string]string {
	want := map[string]string{
		"www.example": "192.0.2.4", "www.example.org": "192.0.2.1", "a.www.example.org": "192.0.2.6", // outside
		"foo.default.svc": "10.0.0.77", "local.default.svc": "10.96.0.100",
		"au": "",
	}
	failing := []string{"servfail", "refused"}
	if by == "musl" {
		failing = nil // it waits for another answer, five seconds
	}
	for _, shorter := range []string{"example", "www.example", "www.example.org", "a.www.example.org", "foo", "local", "local.default", "foo.default.svc", "local.default.svc"} {
		for _, last := range append(failing, "au", "example") {
			if last != "example" || !strings.HasSuffix(shorter, ".svc") { // which is what a pod of that namespace asks for
				want[shorter+"."+last] = ""
			}
		}
	}
	return want
}

// TestSvcOnTheSearchPathIsShared: if svc.clusterset.local is on the search path, or imports are in cluster.local by `alias`, a name of two
// labels is a Service and its namespace before it is a name on the Internet. Kubernetes' own search path, with svc.cluster.local, does the
// same for local Services: the owner of a namespace `example` owns www.example.
func TestSvcOnTheSearchPathIsShared(t *testing.T) {
	inNetwork(t, func(w *world) {
		w.apply(wwwExample)
		for name, search := range map[string]string{"stock": podSearch + " svc.clusterset.local", "alias": podSearch} {
			w.run(name, func(w *world) {
				w.coreDNS(example(name))
				w.searches(search)
				w.resolves("www.example", "10.0.0.77")
				w.resolves("www.example.org", "192.0.2.1")
			})
		}
		w.run("without imports", func(w *world) {
			w.apply(aLocalWWW)
			w.coreDNS(stockAlone())
			w.searches(podSearch)
			w.resolves("www.example", "10.96.0.102")
		})
	})
}
