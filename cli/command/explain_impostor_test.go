package command_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/clusterset-dns/multicluster/cli/explain/chain"
	"github.com/clusterset-dns/multicluster/cli/output"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// impostor: a context that is first in the alphabet announces the ID of the exporting peer, and exports nothing. The Secret of the peer names
// the other one. It is the API server of member2 with another identity.
func (l *lab) impostor() {
	l.Helper()
	l.shop("impostor")
	l.whole("foo.impostor.svc.clusterset.local")
	identities := map[string]string{
		"/api/v1/namespaces/kube-system": `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"uid": "of-the-impostor"}}`,
		"/apis/coordination.k8s.io/v1/namespaces/multicluster-system/leases/multicluster-member": `{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {"holderIdentity": "member1"}}`,
	}
	undo := l.Disguise(l.T, "aaa", "member2", func(r *http.Response) error {
		if identity := identities[r.Request.URL.Path]; identity != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(identity)), -1
			r.Header = http.Header{"Content-Type": {"application/json"}}
		}
		return nil
	})
	defer undo()
	kube.Eventually(l, "the exporter is member1", func() error {
		r := l.report("foo.impostor.svc.clusterset.local")
		found := slices.ContainsFunc(r.Links, func(l chain.Link) bool {
			return l.Link == "endpoints" && l.Cluster == "member1" && l.State == chain.OK
		})
		duplicate := slices.ContainsFunc(r.Also, func(p output.Problem) bool {
			return p.ID == "DuplicateID" && p.What == "2 clusters announce the ID member1: aaa, member1."
		})
		if !found || !duplicate || r.Cause != nil && r.Cause.ID == "NoExport" {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// report runs the command for programs.
func (l *lab) report(name string) *chain.Report {
	l.Helper()
	said := l.World.Run(append(question(name, nil), "-o", "json")...)
	report := new(chain.Report)
	if err := json.Unmarshal([]byte(said.Out), report); err != nil {
		l.Fatalf("%v\n%s%s", err, said.Out, said.Err)
	}
	return report
}
