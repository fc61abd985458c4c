package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// What an administrator or a tool does by mistake to Secrets, IDs and the controller's namespace costs no import,
// no address and no endpoint. The steps follow each other on two clusters.
func TestSlipsCostNothing(t *testing.T) {
	p := newDuo(t, 5*time.Minute)
	p.export(0, service("foo"), "10.9.1.1")
	p.export(0, service("bare", headless), "10.9.1.3")
	p.export(0, service("both"), "10.9.1.2")
	p.export(1, service("both"), "10.9.2.2")
	whole := func() error {
		return errors.Join(p.imported(1, "foo", []string{"c1"}, "10.9.1.1"), p.imported(1, "bare", []string{"c1"}, "10.9.1.3"),
			p.imported(1, "both", []string{"c1", "c2"}, "10.9.1.2", "10.9.2.2"))
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
			own := *p.stage
			own.T = t
			s := &slips{duo: &duo{stage: &own, way: p.way}, whole: whole}
			s.until("imported", func() error { return errors.Join(whole(), s.connected("True", "Connected")) })
			s.remember()
			step.run(s)
		})
	}
}

type slips struct {
	*duo
	whole func() error
	uids  map[string]types.UID
	ips   map[string][]string
}

func (s *slips) remember() {
	s.uids, s.ips = map[string]types.UID{}, map[string][]string{}
	for _, name := range []string{"foo", "bare", "both"} {
		imp, err := s.imp(1, name)
		if err != nil {
			s.Fatal(err)
		}
		s.uids[name], s.ips[name] = imp.UID, imp.Spec.IPs
	}
}

// same wants every import as it was.
func (s *slips) same() {
	s.Helper()
	for name, uid := range s.uids {
		if imp, err := s.imp(1, name); err != nil || imp.UID != uid || !slices.Equal(imp.Spec.IPs, s.ips[name]) {
			s.Errorf("%s: the UID was %s and is %s, ips were %v and are %v: %v", name, uid, imp.UID, s.ips[name], imp.Spec.IPs, err)
		}
	}
	if err := s.whole(); err != nil {
		s.Error(err)
	}
}

// works lets c2's controller show that it has seen everything up to now: it imports something new of its own.
func (s *slips) works(name string) {
	s.Helper()
	s.export(1, service(name), "10.9.2.9")
	s.until("the controller works", func() error { return s.imported(1, name, []string{"c2"}, "10.9.2.9") })
}

func (s *slips) secret() *corev1.Secret {
	s.Helper()
	secret := new(corev1.Secret)
	if err := s.set[1].Admin.Get(s.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: "c1"}, secret); err != nil {
		s.Fatal(err)
	}
	secret.ObjectMeta = metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, Labels: secret.Labels}
	return secret
}

func (s *slips) lose() {
	s.Helper()
	if err := s.set[1].Lose(s.Context(), "c1"); err != nil {
		s.Fatal(err)
	}
}

func (s *slips) makeAgain(secret *corev1.Secret) {
	s.Helper()
	if err := s.set[1].Admin.Create(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

// reason wants the reason on the Lease of c1.
func (s *slips) reason(want string) error {
	lease := new(coordinationv1.Lease)
	err := s.set[1].Admin.Get(s.Context(), client.ObjectKey{Namespace: SystemNamespace, Name: "c1"}, lease)
	if got := lease.Labels["clusterset-dns.io/reason"]; err == nil && got != want {
		err = fmt.Errorf("c1 is %s; want %s", got, want)
	}
	return err
}

func (s *slips) secretMadeAgain() {
	secret := s.secret()
	s.lose()
	s.works("a1")
	s.until("the Lease has it", func() error { return s.reason("SecretMissing") })
	s.same()
	s.makeAgain(secret)
	s.until("connected", func() error { return s.connected("True", "Connected") })
	s.works("a2")
	s.same()
}

func (s *slips) startWithoutSecret() {
	secret := s.secret()
	s.end(1)
	s.lose()
	s.run(1)
	s.works("b1")
	s.same()
	s.makeAgain(secret)
	s.until("connected", func() error { return s.connected("True", "Connected") })
	s.works("b2")
	s.same()
}

// start wants a refusal. A controller that works nevertheless is given the time for its first pass, and ended.
func (s *slips) start(in int, id string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Minute)
	defer cancel()
	if err := s.set[in].Run(ctx, func(o *reconcile.Options) { o.ClusterID = id }); err != nil {
		return
	}
	s.Errorf("the controller of %s starts with the ID %s", s.set[in].ID, id)
	name := "wrong-" + id
	s.export(in, service(name), "10.9.9.9")
	s.until("it works", func() error {
		_, err := s.imp(in, name)
		return err
	})
	_ = s.set[in].End()
}

func (s *slips) startWithPeersID() {
	s.end(1)
	s.start(1, "c1")
	s.same()
	// Also where nothing is announced.
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, mcs.AnnotationClusterID))
	if err := s.set[1].Admin.Patch(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}, patch); err != nil {
		s.Fatal(err)
	}
	s.start(1, "c1")
	s.same()
	s.run(1)
	s.works("c1")
	s.same()
}

func (s *slips) startWithWrongID() {
	s.end(0)
	s.start(0, "c9")
	s.works("d1")
	s.same()
	s.run(0)
	s.until("connected", func() error { return s.connected("True", "Connected") })
	s.works("d2")
	s.same()
}

// rightsGo is an uninstallation that begins with the rights, of both accounts, and its repair.
func (s *slips) rightsGo() {
	for in, name := range []string{"multicluster-peer", mcs.ControllerName} {
		at := metav1.ObjectMeta{Name: name}
		if err := errors.Join(s.set[in].Admin.Delete(s.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: at}),
			s.set[in].Admin.Delete(s.Context(), &rbacv1.ClusterRole{ObjectMeta: at})); err != nil {
			s.Fatal(err)
		}
	}
	reads, err := client.New(s.set[1].Account, client.Options{Scheme: Scheme})
	if err != nil {
		s.Fatal(err)
	}
	s.until("the rights are gone", func() error {
		if err := reads.List(s.Context(), new(corev1.ServiceList)); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the list of Services is not refused: %w", err)
		}
		return nil
	})
	s.way.Expire() // the controller lists again what it watches
	s.until("the Lease has it", func() error { return s.reason("Forbidden") })
	s.same()
	for _, c := range s.set {
		if err := c.Install(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
	s.until("connected", func() error { return s.connected("True", "Connected") })
	s.works("f1")
	s.same()
}

// namespaceDeleted also installs everything anew: the controller first, as README does, and the Secret of the peer later.
func (s *slips) namespaceDeleted() {
	secret := s.secret()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}
	if err := s.set[1].Admin.Delete(s.Context(), namespace); err != nil {
		s.Fatal(err)
	}
	s.until("the namespace goes", func() error {
		err := s.set[1].Admin.Get(s.Context(), client.ObjectKeyFromObject(namespace), new(corev1.Namespace))
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	s.same()
	if err := s.set[1].End(); err != nil {
		s.Logf("the controller ended with: %v", err)
	}
	s.same()
	if err := s.set[1].Install(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.run(1)
	s.works("e1")
	s.until("the Lease has it", func() error { return s.reason("SecretMissing") })
	s.same()
	s.end(1)
	s.run(1) // as when the Deployment is changed before the Secret is back
	s.works("e2")
	s.same()
	s.makeAgain(secret)
	s.until("connected", func() error { return s.connected("True", "Connected") })
	s.works("e3")
	s.same()
}
