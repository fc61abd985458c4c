package rules

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/test/world"
)

// What an administrator or a tool does by mistake to Secrets, IDs and the controller's namespace costs no import,
// no address and no endpoint. The steps follow each other on two clusters.
func TestSlipsCostNothing(t *testing.T) {
	s := reads(t, 5*time.Minute)
	s.Export("c1", world.Service("foo"), "10.9.1.1")
	s.Export("c1", world.Service("bare", world.Headless), "10.9.1.3")
	s.Export("c1", world.Service("both"), "10.9.1.2")
	s.Export("c2", world.Service("both"), "10.9.2.2")
	whole := func() error {
		return errors.Join(s.Imported("c2", "foo", []string{"c1"}, "10.9.1.1"), s.Imported("c2", "bare", []string{"c1"}, "10.9.1.3"),
			s.Imported("c2", "both", []string{"c1", "c2"}, "10.9.1.2", "10.9.2.2"))
	}
	for _, step := range []struct {
		name string
		run  func(*slips)
	}{
		{"the peer's Secret is made again", (*slips).secretMadeAgain},
		{"the controller starts while the peer's Secret is missing", (*slips).startWithoutSecret},
		{"the importing controller starts with the peer's ID", (*slips).startWithPeersID},
		{"the exporting controller starts with a wrong ID", (*slips).startWithWrongID},
		{"the rights of the controller go before the controller", (*slips).rightsGo},
		{"the controller's namespace is deleted, and made again", (*slips).namespaceDeleted},
	} {
		t.Run(step.name, func(t *testing.T) {
			s := &slips{Namespace: s.For(t)}
			s.Until("imported", func() error { return errors.Join(whole(), connected(s.Namespace, "True", "Connected")) })
			still := stays(s.Namespace, "c2", "foo", "bare", "both")
			s.same = func() {
				s.Helper()
				still()
				s.Check(whole())
			}
			step.run(s)
		})
	}
}

type slips struct {
	*world.Namespace
	same func() // wants every import as it was, with its endpoints
}

func (s *slips) secret() *corev1.Secret {
	s.Helper()
	secret := world.Live(s.System(), "c2", new(corev1.Secret), "c1")
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}
	return secret
}

func (s *slips) lose() {
	s.Helper()
	s.Must(s.Cluster("c2").Lose(s.Context(), "c1"))
}

// makeAgain also waits for the peer.
func (s *slips) makeAgain(secret *corev1.Secret, marker string) {
	s.Helper()
	s.Create("c2", secret)
	s.works(marker)
}

// works waits until c2 reads c1, and has seen everything up to now.
func (s *slips) works(marker string) {
	s.Helper()
	s.Until("connected", func() error { return connected(s.Namespace, "True", "Connected") })
	works(s.Namespace, marker)
	s.same()
}

// reports waits for the reason on the Lease of c1.
func (s *slips) reports(reason string) {
	s.Helper()
	s.Until("the Lease has it", func() error { return connected(s.Namespace, "", reason) })
	s.same()
}

func (s *slips) secretMadeAgain() {
	secret := s.secret()
	s.lose()
	works(s.Namespace, "a1")
	s.reports("SecretMissing")
	s.makeAgain(secret, "a2")
}

func (s *slips) startWithoutSecret() {
	secret := s.secret()
	s.End("c2")
	s.lose()
	s.Run("c2")
	works(s.Namespace, "b1")
	s.same()
	s.makeAgain(secret, "b2")
}

// start wants a refusal. A controller that works nevertheless is given the time for its first pass, and ended.
func (s *slips) start(in, id string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Late(), time.Minute)
	defer cancel()
	if err := s.Cluster(in).Run(ctx, func(o *reconcile.Options) { o.ClusterID = id }); err != nil {
		return
	}
	s.Errorf("the controller of %s starts with the ID %s", in, id)
	name := "wrong-" + id
	s.Export(in, world.Service(name), "10.9.9.9")
	s.Until("it works", func() error {
		_, err := s.Import(in, name)
		return err
	})
	_ = s.Cluster(in).End()
}

func (s *slips) startWithPeersID() {
	s.End("c2")
	s.start("c2", "c1")
	s.same()
	// Also where nothing is announced.
	s.Must(s.Admin("c2").Delete(s.Context(), leaseOf(member.Name)))
	s.start("c2", "c1")
	s.same()
	s.Run("c2")
	works(s.Namespace, "c1")
	s.same()
}

func (s *slips) startWithWrongID() {
	s.End("c1")
	s.start("c1", "c9")
	works(s.Namespace, "d1")
	s.same()
	s.Run("c1")
	s.works("d2")
}

// rightsGo is an uninstallation that begins with the rights, of both accounts, and its repair.
func (s *slips) rightsGo() {
	for id, name := range map[string]string{"c1": "multicluster-peer", "c2": mcs.ControllerName} {
		at := metav1.ObjectMeta{Name: name}
		s.Delete(id, &rbacv1.ClusterRoleBinding{ObjectMeta: at}, &rbacv1.ClusterRole{ObjectMeta: at})
	}
	reads := s.As(s.Cluster("c2").Account)
	s.Until("the rights are gone", func() error {
		if err := reads.List(s.Context(), new(corev1.ServiceList)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the list of Services is not refused: %w", err)
		}
		return nil
	})
	s.Way.Expire() // the controller lists again what it watches
	s.reports("Forbidden")
	for _, c := range s.Clusters {
		s.Must(c.Install(s.Context()))
	}
	s.works("f1")
}

// namespaceDeleted also installs everything anew: the controller first, as README does, and the Secret of the peer later.
func (s *slips) namespaceDeleted() {
	secret := s.secret()
	s.Delete("c2", namespaceOf(world.SystemNamespace))
	s.Until("the namespace goes", func() error { return s.System().Gone("c2", new(corev1.Namespace), world.SystemNamespace) })
	s.same()
	if err := s.Cluster("c2").End(); err != nil {
		s.Logf("the controller ended with: %v", err)
	}
	s.same()
	s.Must(s.Cluster("c2").Install(s.Context()))
	s.Run("c2")
	works(s.Namespace, "e1")
	s.reports("SecretMissing")
	s.End("c2")
	s.Run("c2") // as when the Deployment is changed before the Secret is back
	works(s.Namespace, "e2")
	s.same()
	s.makeAgain(secret, "e3")
}
