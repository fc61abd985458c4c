package rules

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/world"
)

// TestLeasesOfTenants: with `edit` a tenant can create a Lease that looks like the announcement of a cluster. It is in another
// namespace, and younger than that of the controller. So peers do not read it, and the controller continues and starts again, even if
// the tenant knows the UID of the cluster and renews the Lease.
func TestLeasesOfTenants(t *testing.T) {
	const beat = 3 * time.Second
	often := func(o *reconcile.Options) { o.Heartbeat = beat }
	s := newTenants(t)
	s.Restart("c1", often)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Until("imported", func() error { return s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1") })
	still := stays(s.Namespace, "c2", "foo")
	tenant := s.tenant("c1", "edit")
	own := world.Live(s.System(), "c1", new(coordinationv1.Lease), member.Name)
	for name, change := range map[string]func(*member.Announcement){
		"own":    func(*member.Announcement) {}, // that of a second installation
		"other":  func(a *member.Announcement) { a.ID = "c9" },
		"peer":   func(a *member.Announcement) { a.ID = "c2" },
		"nobody": func(a *member.Announcement) { a.ID = "" },
		"none":   func(a *member.Announcement) { a.Limited = true },
	} {
		t.Run(name, func(t *testing.T) {
			s := &tenants{s.For(t), s.server}
			forged := member.Read(own)
			change(&forged)
			lease, _ := forged.Lease(s.Name, time.Minute)
			if forged.ID == "" {
				lease.Spec.HolderIdentity = nil
			}
			s.CreateAs(tenant, lease)
			renewed := func() {
				world.EditAs(s.Namespace, tenant, new(coordinationv1.Lease), member.Name, func(l *coordinationv1.Lease) {
					l.Spec.RenewTime = new(metav1.NowMicro())
				})
			}
			for range 2 { // heartbeats of the controller, which looks at the Leases before each
				renewed()
				now := time.Now().Add(beat)
				world.Becomes(s.System(), "c1", new(coordinationv1.Lease), member.Name, "the controller runs", func(l *coordinationv1.Lease) bool {
					return l.Spec.RenewTime.After(now)
				})
			}
			renewed()
			s.Restart("c1", often)
			s.Export("c1", world.Service(name), "10.9.1.2")
			s.Until("imported", func() error {
				return errors.Join(s.Imported("c2", name, []string{"c1"}, "10.9.1.2"), s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"),
					connected(s.Namespace, "True", "Connected"))
			})
			still()
			s.Must(tenant.Delete(s.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: member.Name}}))
		})
	}
}

// announcing is what a controller writes to announce another ID of its cluster.
func announcing(id string) (*coordinationv1.Lease, client.Patch) {
	lease, _ := member.Announcement{ID: id, Renewed: time.Now()}.Lease(world.SystemNamespace, time.Minute)
	return lease, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"holderIdentity":"`+id+`"}}`))
}
