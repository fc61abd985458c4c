package reconcile

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// The API server answers a full range of addresses with 500, and a webhook without a code with 400. Both are told in the
// condition, and tried again.
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

	asked := denying(t, p)
	if err := p.create(imported("denied", families(corev1.IPv6Protocol))); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, "the denial is told", func() error {
		imp, err := p.imp("denied")
		return errors.Join(err, saying(imp, "ServiceRefused", "decision"))
	})
	for i := range 50 { // events of the name
		if err := p.edit("denied", func(imp *mcsv1beta1.ServiceImport) {
			metav1.SetMetaDataAnnotation(&imp.ObjectMeta, "example.org/edit", fmt.Sprint(i))
		}); err != nil {
			t.Fatal(err)
		}
	}
	kube.Eventually(t, "all are planned", func() error {
		imp, err := p.imp("denied")
		if err == nil && imp.Status.Conditions[0].ObservedGeneration != imp.Generation {
			err = errors.New("not yet")
		}
		return err
	})
	// 100 ms, doubled each time: ten tries take a minute and a half.
	if n := asked.Load(); n > 15 {
		t.Errorf("the webhook was asked %d times for one Service", n)
	}
}

// denying makes the API server ask a webhook for each new Service with an owner, which denies it, without a code and with another
// text each time. It returns how often that was asked.
func denying(t *testing.T, p *place) *atomic.Int64 {
	t.Helper()
	asked := new(atomic.Int64)
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("the webhook was asked with %v", err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: fmt.Sprintf("decision %d", asked.Add(1))}}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(hook.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	config := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "denying.example.org", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new(hook.URL), CABundle: ca},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}},
			}},
		}},
	}
	if err := p.Create(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	probe := plainService("probe")
	probe.Namespace = p.namespace
	kube.Eventually(t, "the webhook denies", func() error {
		if err := p.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err == nil {
			return errors.New("not yet")
		}
		return nil
	})
	asked.Store(0)
	return asked
}
