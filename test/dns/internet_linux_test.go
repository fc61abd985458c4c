package dns

import (
	"strings"
	"testing"
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
