// Package karmada tests this project in member clusters of a real Karmada control plane. README.md of package interop describes how.
package karmada

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// scene is a Karmada control plane with two members. The import foo of member2 has the address that ip is.
type scene struct {
	*host
	member1, member2 *member
	ips              *history
	ip               string
}

// TestKarmada shows what docs/interop/karmada.md says. Its parts use one scene, one after the other.
func TestKarmada(t *testing.T) {
	kube.NotShort(t)
	if os.Getenv("CLUSTERS") != "1" {
		t.Skip("starts real clusters, as root: make e2e-karmada")
	}
	s := newScene(t)
	for _, part := range []struct {
		name string
		run  func(*scene, *testing.T)
	}{
		{"ClusterSetIP", (*scene).clusterSetIP},
		{"ExistingCRDs", (*scene).existingCRDs},
		{"Headless", (*scene).headless},
		{"MultiClusterService", (*scene).multiClusterService},
		{"Idle", (*scene).idle},
		{"Restart", (*scene).restart},
		{"Template", (*scene).template},
		{"Recreated", (*scene).recreated},
		{"Repropagated", (*scene).repropagated},
		{"CRD", (*scene).crd},
		{"Migrate", (*scene).migrate},
		{"Uninstall", (*scene).uninstall},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(s, t) }) {
			return // the next part would fail for the same reason
		}
	}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	h := startHost(t)
	members := startMembers(t)
	s := &scene{host: h, member1: members[0], member2: members[1]}
	for _, m := range members {
		m.install(t)
		m.join(t, h)
	}
	s.member1.kubectl(t, "apply", "--server-side", "--kustomize", "deploy/crd")
	s.kubectl(t, "apply", "--kustomize", "deploy/karmada")
	s.apply(t, crds)
	for _, m := range members {
		eventually(t, "Karmada knows that "+m.name+" has the CRDs", func(ctx context.Context) error {
			kinds, err := s.get(ctx, "cluster/"+m.name, `{.status.apiEnablements[?(@.groupVersion=="multicluster.x-k8s.io/v1alpha1")].resources[*].kind}`)
			if err == nil && len(strings.Fields(kinds)) != 2 {
				err = fmt.Errorf("it knows %q", kinds)
			}
			return err
		})
	}
	s.ips = watchIPs(t, s.member2.cluster.Config, "foo")
	s.apply(t, foo+db+web)
	s.member2.apply(t, client)
	for _, m := range members {
		m.awaitPods(t)
	}
	s.member2.kubectl(t, "wait", "--for=condition=Ready", "pod/client", "--timeout=2m")
	return s
}

// clusterSetIP: a pod of member2 reaches foo of member1 by its usual name, although member2 has no Service foo.
func (s *scene) clusterSetIP(t *testing.T) {
	for _, name := range []string{"foo.default.svc", "foo.default", "foo.default.svc.clusterset.local"} {
		s.member2.prints(t, "curl -sS -m 5 http://"+name+"/", " member1")
	}
	s.member2.prints(t, "nslookup foo.default.svc.clusterset.local", "foo.default.svc.clusterset.local", "-NXDOMAIN")
	if err := s.member2.wantNone(t.Context(), "service/foo"); err != nil {
		t.Error(err)
	}
	var err error
	if s.ip, err = s.member2.get(t.Context(), "service/derived-foo", "{.spec.clusterIP}"); err != nil || s.ip == "" {
		t.Fatalf("derived-foo has the ClusterIP %q: %v", s.ip, err)
	}
	s.ips.take() // the first value is the template's, without ips
	s.ips.wantUnchanged(t, s.ip)
	eventually(t, "an event with the address", func(ctx context.Context) error {
		messages, err := s.member2.try(ctx, "get", "events", "--field-selector=involvedObject.kind=ServiceImport,involvedObject.name=foo,reason=Ready", "--output=jsonpath={..message}")
		if err == nil && messages != "spec.ips follows Service derived-foo: "+s.ip {
			err = fmt.Errorf("the messages are %q", messages)
		}
		return err
	})
}

// existingCRDs: member1 has the CRDs of deploy/crd, which Karmada does not replace. Exports work with them.
func (s *scene) existingCRDs(t *testing.T) {
	const applied = `{.items[?(@.spec.workload.manifests[0].metadata.name=="serviceexports.multicluster.x-k8s.io")].status.conditions[?(@.type=="Applied")].status}`
	for member, want := range map[string]string{"member1": "False", "member2": "True"} {
		eventually(t, "the work of Karmada's CRD in "+member, func(context.Context) error {
			if got := s.kubectl(t, "get", "works", "--namespace=karmada-es-"+member, "--output=jsonpath="+applied); got != want {
				return fmt.Errorf("it is applied: %q, want %q", got, want)
			}
			return nil
		})
	}
	if versions := s.member1.kubectl(t, "get", "crd", "serviceexports.multicluster.x-k8s.io", "--output=jsonpath={.spec.versions[*].name}"); !strings.Contains(versions, "v1beta1") {
		t.Errorf("member1 has the versions %s", versions)
	}
}

// headless: the pods of member1 by the name of the Service, and each by its own.
func (s *scene) headless(t *testing.T) {
	const host = "db-0.member1.db.default.svc.clusterset.local"
	for _, name := range []string{"db.default.svc", "db.default.svc.clusterset.local", host} {
		s.member2.prints(t, "curl -sS -m 5 http://"+name+":8080/", "db-0 member1")
	}
	s.member2.prints(t, "nslookup "+host, host, "-NXDOMAIN")
}

// multiClusterService: the project does not touch the objects of a MultiClusterService.
func (s *scene) multiClusterService(t *testing.T) {
	s.member2.prints(t, "curl -sS -m 5 http://web.default.svc/", " member1")
	for _, object := range []string{"service/web", "endpointslice --selector=kubernetes.io/service-name=web"} {
		writers := s.member2.kubectl(t, append([]string{"get", "--show-managed-fields", "--output=jsonpath={..managedFields[*].manager}"}, strings.Fields(object)...)...)
		if writers == "" || strings.Contains(writers, "multicluster") {
			t.Errorf("%s in member2 was written by %q", object, writers)
		}
	}
}

// versions are the resourceVersions of what Karmada and the controller write in a member.
func (m *member) versions(t *testing.T) map[string]string {
	t.Helper()
	out := m.kubectl(t, "get", "services,endpointslices,serviceimports,serviceexports", "--namespace=default",
		`--output=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
	all := map[string]string{}
	for line := range strings.Lines(out) {
		object, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[object] = version
	}
	return all
}

// idle: neither Karmada's regular looks at a member nor a restart, in which it compares each object with its template, write anything.
func (s *scene) idle(t *testing.T) {
	before := []map[string]string{s.member1.versions(t), s.member2.versions(t)}
	s.manager.Stop()
	s.startManager(t)
	s.awaitRound(t)
	for i, m := range []*member{s.member1, s.member2} {
		if after := m.versions(t); !maps.Equal(before[i], after) {
			t.Errorf("%s had %v and has %v", m.name, before[i], after)
		}
	}
	s.ips.wantUnchanged(t, s.ip)
}

// awaitRound waits until a controller-manager that was started has compared every Work with its member, and has looked at both members
// several times.
func (s *scene) awaitRound(t *testing.T) {
	t.Helper()
	// Those of CRDs that member1 already has fail.
	states := s.kubectl(t, "get", "works", "--all-namespaces", `--output=jsonpath={range .items[*]}state={.status.conditions[?(@.type=="Applied")].status}{"\n"}{end}`)
	works := strings.Count(states, "state=") - strings.Count(states, "state=False")
	if works < 1 {
		t.Fatalf("Karmada has %d works that it compares: %s", works, states)
	}
	eventually(t, fmt.Sprintf("Karmada compares %d works", works), func(ctx context.Context) error {
		n, err := s.counted(ctx, "controller_runtime_reconcile_total", `controller="execution-controller",result="success"`)
		if err == nil && n < works {
			err = fmt.Errorf("it has compared %d", n)
		}
		return err
	})
	for _, m := range []*member{s.member1, s.member2} {
		eventually(t, "Karmada looks at "+m.name, func(ctx context.Context) error {
			n, err := s.counted(ctx, "cluster_sync_status_duration_seconds_count", `"`+m.name+`"`)
			if err == nil && n < 5 {
				err = fmt.Errorf("it has looked %d times", n)
			}
			return err
		})
	}
}

const portName = "{.spec.ports[0].name}"

// restart: a controller-manager that was away reverts what was changed in a member, and keeps its ips.
func (s *scene) restart(t *testing.T) {
	s.manager.Stop()
	s.member2.kubectl(t, "patch", "serviceimport", "foo", "--type=json", `--patch=[{"op": "replace", "path": "/spec/ports/0/name", "value": "changed"}]`)
	s.startManager(t)
	s.member2.has(t, "serviceimport/foo", portName, "http")
	s.ips.wantUnchanged(t, s.ip)
}

// template: a change of the import on the control plane reaches the member, and its ips stay.
func (s *scene) template(t *testing.T) {
	s.kubectl(t, "patch", "serviceimport", "foo", "--type=json", `--patch=[{"op": "replace", "path": "/spec/ports/0/name", "value": "web"}]`)
	for _, object := range []string{"serviceimport/foo", "service/derived-foo"} {
		s.member2.has(t, object, portName, "web")
	}
	s.kubectl(t, "patch", "serviceimport", "foo", "--type=json", `--patch=[{"op": "replace", "path": "/spec/ports/0/name", "value": "http"}]`)
	for _, object := range []string{"serviceimport/foo", "service/derived-foo"} {
		s.member2.has(t, object, portName, "http")
	}
	s.ips.wantUnchanged(t, s.ip)
	s.answers(t)
}

// answers waits until foo answers, and its import has the address of its Service.
func (s *scene) answers(t *testing.T) {
	t.Helper()
	s.member2.prints(t, "curl -sS -m 5 http://foo.default.svc/", " member1")
}

// recreated: an import that was deleted in the member comes back, and gets the ips of the Service that stayed.
func (s *scene) recreated(t *testing.T) {
	s.member2.kubectl(t, "delete", "serviceimport", "foo")
	s.member2.has(t, "serviceimport/foo", "{.spec.ips[0]}", s.ip)
	s.answers(t)
	s.ips.take()
}

// repropagated: an import that a policy takes from a member and gives back works as before.
func (s *scene) repropagated(t *testing.T) {
	place := func(clusters string) {
		s.kubectl(t, "patch", "propagationpolicy", "foo-import", "--type=merge",
			`--patch={"spec": {"placement": {"clusterAffinity": {"clusterNames": ["`+clusters+`"]}}}}`)
	}
	place("member1")
	for _, object := range []string{"serviceimport/foo", "service/derived-foo"} {
		eventually(t, object+" is gone", func(ctx context.Context) error { return s.member2.wantNone(ctx, object) })
	}
	place("member2")
	eventually(t, "the import has the address of derived-foo", func(ctx context.Context) error {
		ip, err := s.member2.get(ctx, "service/derived-foo", "{.spec.clusterIP}")
		if err != nil {
			return err
		}
		got, err := s.member2.get(ctx, "serviceimport/foo", "{.spec.ips[0]}")
		if err == nil && (ip == "" || got != ip) {
			err = fmt.Errorf("it has %q, and the Service %q", got, ip)
		}
		s.ip = ip
		return err
	})
	s.answers(t)
	s.ips.take()
}

// crd: an update of the CRD that Karmada propagates changes no ips.
func (s *scene) crd(t *testing.T) {
	const definition, path = "customresourcedefinition/serviceimports.multicluster.x-k8s.io", "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
	s.kubectl(t, "patch", definition, "--type=json",
		`--patch=[{"op": "add", "path": "`+path+`ipFamilies", "value": {"type": "array", "items": {"type": "string"}}},
		          {"op": "replace", "path": "`+path+`ips/maxItems", "value": 2}]`)
	s.member2.has(t, definition, "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.ips.maxItems}", "2")
	s.kubectl(t, "annotate", "serviceimport", "foo", "example.org/after=crd")
	s.member2.has(t, "serviceimport/foo", `{.metadata.annotations.example\.org/after}`, "crd")
	s.answers(t)
	s.ips.wantUnchanged(t, s.ip)
}

// migrate: from a MultiClusterService to an import and back, as docs/interop/migrate.md says.
func (s *scene) migrate(t *testing.T) {
	const usual, set = "curl -sS -m 5 http://web.default.svc/", "curl -sS -m 5 http://web.default.svc.clusterset.local/"
	s.apply(t, webImport)
	s.member2.prints(t, set, " member1")
	s.member2.prints(t, usual, " member1")
	s.kubectl(t, "delete", "multiclusterservice", "web")
	eventually(t, "member2 has no Service web", func(ctx context.Context) error { return s.member2.wantNone(ctx, "service/web") })
	s.member2.prints(t, usual, " member1")
	s.member2.prints(t, set, " member1")
	s.apply(t, webService)
	own := func(ctx context.Context) error {
		ip, err := s.member2.get(ctx, "service/web", "{.spec.clusterIP}")
		if err == nil && ip == "" {
			err = errors.New("there is none")
		}
		return err
	}
	eventually(t, "member2 has a Service web", own)
	s.member2.prints(t, usual, " member1")
	s.kubectl(t, "delete", "serviceimport", "web")
	eventually(t, "member2 has no import web", func(ctx context.Context) error { return s.member2.wantNone(ctx, "serviceimport/web") })
	s.member2.prints(t, usual, " member1")
	s.member2.prints(t, "nslookup web.default.svc.clusterset.local || true", "NXDOMAIN")
}

// uninstall: the controllers go first. Then nothing writes ips when Karmada empties them, and Karmada's own objects still work.
func (s *scene) uninstall(t *testing.T) {
	for _, m := range []*member{s.member1, s.member2} {
		m.kubectl(t, "delete", "--kustomize", "deploy/controller", "--wait")
	}
	s.kubectl(t, "delete", "--kustomize", "deploy/karmada")
	s.kubectl(t, "annotate", "serviceimport", "foo", "--overwrite", "example.org/after=uninstalled")
	s.member2.has(t, "serviceimport/foo", `{.metadata.annotations.example\.org/after}`, "uninstalled")
	s.member2.has(t, "serviceimport/foo", "{.spec.ips}", "")
	s.member2.prints(t, "curl -sS -m 5 http://derived-foo.default.svc/", " member1")
	s.member2.prints(t, "curl -sS -m 5 http://web.default.svc/", " member1")
}
