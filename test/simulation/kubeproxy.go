package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeProxy is what a kube-proxy remembers of a cluster, by its own rules. It knows a slice by its label with the Service's name. Where a slice
// loses the label, or gets another one, it keeps what the slice was under the old one, until it starts again.
type kubeProxy struct {
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice // by the Service, and by their names
}

func newKubeProxy() *kubeProxy {
	return &kubeProxy{services: map[types.NamespacedName]*corev1.Service{}, slices: map[types.NamespacedName]map[string]*discoveryv1.EndpointSlice{}}
}

// labelProxy and the label of headless Services hide an object from kube-proxy.
const labelProxy = "service.kubernetes.io/service-proxy-name"

func hidden(o client.Object) bool {
	return o.GetLabels()[labelProxy] != "" || o.GetLabels()[corev1.IsHeadlessService] != ""
}

// sees notes a change of an object, nil before it is there and after it has gone.
func (p *kubeProxy) sees(old, now client.Object) {
	if now != nil && hidden(now) {
		now = nil // it leaves the selection
	}
	if old != nil && hidden(old) {
		old = nil
	}
	switch {
	case now != nil:
		p.note(now)
	case old != nil:
		p.forget(old)
	}
}

func (p *kubeProxy) note(now client.Object) {
	switch now := now.(type) {
	case *corev1.Service:
		p.services[client.ObjectKeyFromObject(now)] = now
	case *discoveryv1.EndpointSlice:
		of, labelled := serviceOf(now)
		if !labelled {
			return
		}
		if p.slices[of] == nil {
			p.slices[of] = map[string]*discoveryv1.EndpointSlice{}
		}
		p.slices[of][now.Name] = now
	}
}

func (p *kubeProxy) forget(old client.Object) {
	switch old := old.(type) {
	case *corev1.Service:
		delete(p.services, client.ObjectKeyFromObject(old))
	case *discoveryv1.EndpointSlice:
		if of, labelled := serviceOf(old); labelled {
			delete(p.slices[of], old.Name)
		}
	}
}

func serviceOf(slice *discoveryv1.EndpointSlice) (of types.NamespacedName, labelled bool) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: slice.Namespace, Name: name}, name != ""
}

// proxied is what kube-proxy does with the ports of a Service: the addresses of endpoints that it chooses from, by the port's name.
type proxied map[string][]string

// uses is what it does with a Service. It keeps one copy of each address and port, and which one is chance: so an endpoint counts as ready if
// all copies are. Endpoints that serve and terminate are the last resort, where none is ready.
func (p *kubeProxy) uses(of types.NamespacedName) proxied {
	svc, uses := p.services[of], proxied{}
	if svc == nil || svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return uses
	}
	for _, port := range svc.Spec.Ports {
		uses[port.Name] = p.usesOf(of, svc, port)
	}
	return uses
}

func (p *kubeProxy) usesOf(of types.NamespacedName, svc *corev1.Service, port corev1.ServicePort) []string {
	ready, last := map[string]bool{}, map[string]bool{}
	for _, slice := range p.slices[of] {
		if !slices.Contains(svc.Spec.IPFamilies, corev1.IPFamily(slice.AddressType)) {
			continue
		}
		for _, to := range slice.Ports {
			if to.Port == nil || *to.Name != port.Name || *to.Protocol != port.Protocol {
				continue
			}
			for _, e := range slice.Endpoints {
				at := fmt.Sprintf("%s:%d", e.Addresses[0], *to.Port)
				is, ends := states(e)
				former, twice := ready[at]
				ready[at] = is && (former || !twice)
				last[at] = last[at] || ends
			}
		}
	}
	if chosen := sortedTrue(ready); len(chosen) > 0 {
		return chosen
	}
	return sortedTrue(last)
}

// states reports whether an endpoint is ready, and whether it serves although it terminates.
func states(e discoveryv1.Endpoint) (ready, ends bool) {
	is := func(condition *bool, otherwise bool) bool {
		if condition == nil {
			return otherwise
		}
		return *condition
	}
	ready = is(e.Conditions.Ready, true)
	return ready, is(e.Conditions.Serving, ready) && is(e.Conditions.Terminating, false)
}

func sortedTrue(all map[string]bool) []string {
	chosen := maps.Clone(all)
	maps.DeleteFunc(chosen, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(chosen))
}

// addresses are those of all ports.
func (p proxied) addresses() map[string]bool {
	all := map[string]bool{}
	for _, some := range p {
		for _, at := range some {
			all[at] = true
		}
	}
	return all
}

// String is such as "http -> 10.9.1.1:8080 10.9.2.1:8080".
func (p proxied) String() string {
	var ports []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		to := strings.Join(p[name], " ")
		if to == "" {
			to = "nowhere"
		}
		ports = append(ports, strings.TrimSpace(name+" -> "+to))
	}
	return strings.Join(ports, ", ")
}
