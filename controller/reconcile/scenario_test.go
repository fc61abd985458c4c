package reconcile

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/kube"
)

// scenario is a sequence of steps with a real API server: before, settled, change, done, in this
// order. settled and done are called until they return nil.
type scenario struct {
	name    string
	before  func(*place) error          // creates the initial objects
	settled func(*place) error          // waits for the controller's result
	change  func(*place, *memory) error // changes the objects
	done    func(*place, memory) error  // waits for the final result
}

// memory contains earlier values for comparison.
type memory struct{ ip string }

func nothing(*place) error { return nil }

// addressStays checks that the ClusterIP has not changed (C24).
func (p *place) addressStays(name string, m memory) error {
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

func (p *place) remember(name string, m *memory) error {
	svc, err := p.svc(name)
	m.ip = svc.Spec.ClusterIP
	return err
}

var scenarios = []scenario{
	{
		name:    "an import is created, then its slices",
		before:  nothing,
		settled: nothing,
		change:  func(p *place, _ *memory) error { return p.create(imported("foo"), endpoints("foo-c2", "foo")) },
		done: func(p *place, _ memory) error {
			return errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo"))
		},
	},
	{
		name:    "the derived Service is deleted",
		before:  func(p *place) error { return p.create(imported("foo")) },
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.Delete(p.ctx, plain(p, "derived-foo")))
		},
		done: func(p *place, m memory) error { return errors.Join(p.served("foo"), p.addressStays("foo", m)) },
	},
	{
		name:    "serve-with-vip: an import comes with the VIP 1.2.3.4",
		before:  nothing,
		settled: nothing,
		change:  func(p *place, _ *memory) error { return p.create(imported("foo", withIPs("1.2.3.4"))) },
		done:    func(p *place, _ memory) error { return p.servedOn("foo", "1.2.3.4") },
	},
	{
		name:    "a user sets a VIP later",
		before:  func(p *place) error { return p.create(imported("foo")) },
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", withIPs("1.2.3.4")))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.servedOn("foo", "1.2.3.4"), p.addressStays("foo", m))
		},
	},
	{
		name:    "a user takes the VIP away",
		before:  func(p *place) error { return p.create(imported("foo", withIPs("1.2.3.4"))) },
		settled: func(p *place) error { return p.servedOn("foo", "1.2.3.4") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", withIPs()))
		},
		done: func(p *place, m memory) error { return errors.Join(p.served("foo"), p.addressStays("foo", m)) },
	},
	{
		name: "a VIP of the other family comes and goes",
		before: func(p *place) error {
			return p.create(imported("foo", families(corev1.IPv4Protocol), withIPs("2001:db8::9")))
		},
		settled: func(p *place) error { return p.servedOn("foo", "2001:db8::9") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", withIPs()))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.has("foo", 1), p.served("foo"), p.addressStays("foo", m))
		},
	},
	{
		name: "a VIP of one family comes and goes on a dual-stack import",
		before: func(p *place) error {
			return p.create(imported("foo", families(corev1.IPv4Protocol, corev1.IPv6Protocol), withIPs("1.2.3.4")))
		},
		settled: func(p *place) error { return p.servedOn("foo", "1.2.3.4") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", withIPs()))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.has("foo", 2), p.served("foo"), p.addressStays("foo", m))
		},
	},
	{
		name:    "an import turns Headless",
		before:  func(p *place) error { return p.create(imported("foo"), endpoints("foo-c2", "foo")) },
		settled: func(p *place) error { return errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo")) },
		change:  func(p *place, _ *memory) error { return p.edit("foo", ofType(mcsv1beta1.Headless)) },
		done:    func(p *place, _ memory) error { return errors.Join(p.gone("foo"), p.label("foo-c2", "")) },
	},
	{
		name:   "an import turns Headless and back",
		before: func(p *place) error { return p.create(imported("foo"), endpoints("foo-c2", "foo")) },
		settled: func(p *place) error {
			imp, err := p.imp("foo")
			if err == nil && imp.Spec.Type == mcsv1beta1.ClusterSetIP {
				err = errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo"))
				if err == nil {
					err = errors.Join(p.edit("foo", ofType(mcsv1beta1.Headless)), errors.New("just turned Headless"))
				}
				return err
			}
			return errors.Join(err, p.gone("foo"), p.label("foo-c2", ""))
		},
		change: func(p *place, m *memory) error {
			imp, err := p.imp("foo")
			m.ip = firstOf(imp.Annotations[mcs.AnnotationClusterIPs])
			return errors.Join(err, p.edit("foo", ofType(mcsv1beta1.ClusterSetIP)))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.served("foo"), p.addressStays("foo", m), p.label("foo-c2", "derived-foo"))
		},
	},
	{
		name:    "an import with a VIP turns Headless",
		before:  func(p *place) error { return p.create(imported("foo", withIPs("1.2.3.4"))) },
		settled: func(p *place) error { return p.servedOn("foo", "1.2.3.4") },
		change:  func(p *place, _ *memory) error { return p.edit("foo", ofType(mcsv1beta1.Headless)) },
		done: func(p *place, _ memory) error {
			imp, err := p.imp("foo")
			if aside := imp.Annotations[mcs.AnnotationVIPs]; aside != "1.2.3.4" {
				err = errors.Join(err, fmt.Errorf("put aside: %q", aside))
			}
			return errors.Join(err, p.gone("foo"))
		},
	},
	{
		name:   "an import with a VIP turns Headless and back",
		before: func(p *place) error { return p.create(imported("foo", withIPs("1.2.3.4"))) },
		settled: func(p *place) error {
			imp, err := p.imp("foo")
			if err == nil && imp.Spec.Type == mcsv1beta1.ClusterSetIP {
				if err = p.servedOn("foo", "1.2.3.4"); err == nil {
					err = errors.Join(p.edit("foo", ofType(mcsv1beta1.Headless)), errors.New("just turned Headless"))
				}
				return err
			}
			return errors.Join(err, p.gone("foo"))
		},
		change: func(p *place, m *memory) error {
			imp, err := p.imp("foo")
			m.ip = firstOf(imp.Annotations[mcs.AnnotationClusterIPs])
			return errors.Join(err, p.edit("foo", ofType(mcsv1beta1.ClusterSetIP)))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.servedOn("foo", "1.2.3.4"), p.addressStays("foo", m))
		},
	},
	{
		name:    "ports and policies change",
		before:  func(p *place) error { return p.create(imported("foo")) },
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", func(imp *mcsv1beta1.ServiceImport) {
				imp.Spec.Ports = []mcsv1beta1.ServicePort{{Name: "http", Port: 8080}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, AppProtocol: new("dns")}}
				imp.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
				imp.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
				imp.Spec.TrafficDistribution = new("PreferClose")
			}))
		},
		done: func(p *place, m memory) error {
			svc, err := p.svc("derived-foo")
			if err != nil {
				return err
			}
			var ports []string
			for _, port := range svc.Spec.Ports {
				ports = append(ports, fmt.Sprintf("%s %s/%d>%s", port.Name, port.Protocol, port.Port, port.TargetPort.String()))
			}
			if !slices.Equal(ports, []string{"http TCP/8080>8080", "dns UDP/53>53"}) || svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP ||
				*svc.Spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyLocal || (svc.Spec.TrafficDistribution == nil) != kube.IsOldest() { // which has no such field
				err = fmt.Errorf("ports %v, affinity %s", ports, svc.Spec.SessionAffinity)
			}
			return errors.Join(err, p.served("foo"), p.addressStays("foo", m))
		},
	},
	{
		name:    "an import is deleted and made again under its name",
		before:  func(p *place) error { return p.create(imported("foo")) },
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.Delete(p.ctx, imported("foo", inNamespace(p.namespace))),
				p.create(imported("foo")))
		},
		done: func(p *place, m memory) error { return errors.Join(p.served("foo"), p.addressStays("foo", m)) },
	},
	{
		name:    "the annotation gives another name",
		before:  func(p *place) error { return p.create(imported("foo"), endpoints("foo-c2", "foo")) },
		settled: func(p *place) error { return errors.Join(p.served("foo"), p.label("foo-c2", "derived-foo")) },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", func(imp *mcsv1beta1.ServiceImport) {
				imp.Annotations[mcs.AnnotationDerivedService] = "elsewhere"
			}))
		},
		done: func(p *place, m memory) error {
			_, err := p.svc("derived-foo")
			if apierrors.IsNotFound(err) {
				err = nil
			} else {
				err = errors.Join(err, errors.New("the Service of the former name is still there"))
			}
			return errors.Join(err, p.served("foo"), p.addressStays("foo", m), p.label("foo-c2", "elsewhere"))
		},
	},
	{
		name: "an import loses its second family",
		before: func(p *place) error {
			return p.create(imported("foo", families(corev1.IPv6Protocol, corev1.IPv4Protocol)))
		},
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", families(corev1.IPv6Protocol)))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.has("foo", 1), p.served("foo"), p.addressStays("foo", m))
		},
	},
	{
		name:    "an import gets a second family",
		before:  func(p *place) error { return p.create(imported("foo")) },
		settled: func(p *place) error { return p.served("foo") },
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("derived-foo", m), p.edit("foo", families(corev1.IPv6Protocol, corev1.IPv4Protocol)))
		},
		done: func(p *place, m memory) error {
			return errors.Join(p.has("foo", 2), p.served("foo"), p.addressStays("foo", m))
		},
	},
	{
		name:    "a Service that is not ours has the name",
		before:  func(p *place) error { return p.create(plainService("derived-foo")) },
		settled: nothing,
		change:  func(p *place, _ *memory) error { return p.create(imported("foo"), endpoints("foo-c2", "foo")) },
		done: func(p *place, _ memory) error {
			imp, err := p.imp("foo")
			return errors.Join(err, ready(imp, metav1.ConditionFalse, desired.ReasonForeignService), p.label("foo-c2", ""), p.untouched("derived-foo"))
		},
	},
	{
		name:    "a Service that is not ours is named by the annotation",
		before:  func(p *place) error { return p.create(plainService("theirs")) },
		settled: nothing,
		change: func(p *place, m *memory) error {
			return errors.Join(p.remember("theirs", m), p.create(endpoints("foo-c2", "foo"), imported("foo", derivedService("theirs"))))
		},
		done: func(p *place, m memory) error {
			imp, err := p.imp("foo")
			if !slices.Equal(imp.Spec.IPs, []string{m.ip}) {
				err = errors.Join(err, fmt.Errorf("ips are %v, the Service has %s", imp.Spec.IPs, m.ip))
			}
			return errors.Join(err, ready(imp, metav1.ConditionTrue, "Ready"), p.label("foo-c2", "theirs"), p.untouched("theirs"))
		},
	},
	{
		name: "a Service with a selector is named by the annotation (C41)",
		before: func(p *place) error {
			local := plainService("local")
			local.Spec.Selector = map[string]string{"app": "local"}
			return p.create(local)
		},
		settled: nothing,
		change: func(p *place, _ *memory) error {
			return p.create(endpoints("foo-c2", "foo"), imported("foo", derivedService("local")))
		},
		done: func(p *place, _ memory) error {
			imp, err := p.imp("foo")
			return errors.Join(err, p.has("foo", 1), ready(imp, metav1.ConditionTrue, "Ready"), p.label("foo-c2", ""), p.untouched("local"))
		},
	},
}

func plain(p *place, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
}

func derivedService(name string) func(*mcsv1beta1.ServiceImport) {
	return func(imp *mcsv1beta1.ServiceImport) {
		imp.Annotations = map[string]string{mcs.AnnotationDerivedService: name}
	}
}

func firstOf(list string) string {
	for i := range list {
		if list[i] == ',' {
			return list[:i]
		}
	}
	return list
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

// untouched checks that only its creator has written a Service: one managedFields entry.
func (p *place) untouched(name string) error {
	svc, err := p.svc(name)
	if err == nil && (len(svc.ManagedFields) != 1 || len(svc.Labels)+len(svc.OwnerReferences) > 0) {
		err = fmt.Errorf("Service %s was written: %+v", name, svc.ManagedFields)
	}
	return err
}
