package reconcile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// saying checks that the condition Ready of an import has the status False, a reason and a text.
func saying(imp *mcsv1beta1.ServiceImport, reason, text string) error {
	for _, c := range imp.Status.Conditions {
		if c.Type == "Ready" && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("import %s has conditions %+v, want %s with %q", imp.Name, imp.Status.Conditions, reason, text)
}

// The API server answers a full range of addresses with 500. That is told in the condition, and tried again.
func TestRefusalsOfARealAPIServer(t *testing.T) {
	cluster := kube.New(t, kube.Options{ServiceCIDRs: smallDualStack})
	if err := prepare(t.Context(), cluster, kube.BothVersions); err != nil {
		t.Fatal(err)
	}
	start(t, account(t, cluster))
	p := newPlace(t, cluster)

	var fillers []*corev1.Service
	for i := 0; ; i++ {
		filler := plainService(fmt.Sprintf("filler-%d", i))
		filler.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		if err := p.create(filler); err != nil {
			t.Logf("after %d: %v", i, err)
			break
		}
		fillers = append(fillers, filler)
	}
	if err := p.create(imported("full", families(corev1.IPv4Protocol)), imported("either", families(corev1.IPv4Protocol, corev1.IPv6Protocol))); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the full range is told", func() error {
		imp, err := p.imp("full")
		return errors.Join(err, saying(imp, "ServiceRefused", "range is full"))
	})
	kube.Eventually(t, "the other family is tried", func() error {
		imp, err := p.imp("either")
		if err == nil && (len(imp.Spec.IPs) != 1 || !strings.HasPrefix(imp.Spec.IPs[0], "fd00:")) {
			err = fmt.Errorf("the ips are %v, and the conditions %+v", imp.Spec.IPs, imp.Status.Conditions)
		}
		return err
	})
	if err := errors.Join(p.Delete(t.Context(), fillers[0]), p.Delete(t.Context(), fillers[1])); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the name is served when an address is free", func() error { return p.served("full") })
}
