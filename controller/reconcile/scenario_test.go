package reconcile

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// earlier contains earlier values for comparison.
type earlier struct{ ip string }

// addressStays checks that the ClusterIP has not changed (C24).
func (p *place) addressStays(name string, m earlier) error {
	imp, err := p.imp(name)
	if err != nil {
		return err
	}
	svc, err := p.svc(ownership.DerivedName(imp))
	if err != nil {
		return err
	}
	if svc.Spec.ClusterIP != m.ip {
		return fmt.Errorf("the address of %s was %s, which %s, and is %s", name, m.ip, p.holderOf(m.ip), svc.Spec.ClusterIP)
	}
	return nil
}

// holderOf returns a text about the Service that has an address now.
func (p *place) holderOf(ip string) string {
	var services corev1.ServiceList
	if err := p.List(p.ctx, &services); err != nil {
		return err.Error()
	}
	for i := range services.Items {
		if svc := &services.Items[i]; svc.Spec.ClusterIP == ip {
			return fmt.Sprintf("%s/%s has, made at %s", svc.Namespace, svc.Name, svc.CreationTimestamp)
		}
	}
	return "no Service has"
}

func (p *place) remember(name string, m *earlier) error {
	svc, err := p.svc(name)
	m.ip = svc.Spec.ClusterIP
	return err
}

func plain(p *place, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
}

func families(f ...corev1.IPFamily) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) { imp.Spec.IPFamilies = f }
}

func (p *place) has(name string, ips int) error {
	imp, err := p.imp(name)
	if len(imp.Spec.IPs) != ips {
		err = errors.Join(err, fmt.Errorf("ips of %s are %v, want %d", name, imp.Spec.IPs, ips))
	}
	return err
}
