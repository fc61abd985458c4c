package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// proxied is what kube-proxy does with one port of a Service: the addresses of endpoints that it chooses from.
type proxied map[string][]string // by the port's name

// kubeProxy is what kube-proxy would use of a Service, by its own rules: slices by the label with the Service's name; one copy of each
// address and port, of which a usable one wins only by chance, so here the last one in the order of slices counts; endpoints that serve and
// terminate only where none is ready.
func kubeProxy(ctx context.Context, from client.Reader, svc *corev1.Service) (proxied, error) {
	var all discoveryv1.EndpointSliceList
	if err := from.List(ctx, &all, client.InNamespace(svc.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: svc.Name}); err != nil {
		return nil, err
	}
	uses := proxied{}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Labels["service.kubernetes.io/service-proxy-name"] != "" {
		return uses, nil
	}
	type state struct{ ready, last bool }
	for _, port := range svc.Spec.Ports {
		copies := map[string]state{}
		for _, slice := range all.Items {
			for _, p := range slice.Ports {
				if p.Port == nil || *p.Name != port.Name || p.Protocol != nil && *p.Protocol != port.Protocol {
					continue
				}
				for _, e := range slice.Endpoints {
					is := func(condition *bool, otherwise bool) bool {
						if condition == nil {
							return otherwise
						}
						return *condition
					}
					ready := is(e.Conditions.Ready, true)
					serving, ending := is(e.Conditions.Serving, ready), is(e.Conditions.Terminating, false)
					copies[fmt.Sprintf("%s:%d", e.Addresses[0], *p.Port)] = state{ready, serving && ending}
				}
			}
		}
		ready := func(at string) bool { return copies[at].ready }
		last := func(at string) bool { return copies[at].last }
		all := slices.Sorted(maps.Keys(copies))
		chosen := slices.DeleteFunc(slices.Clone(all), func(at string) bool { return !ready(at) })
		if len(chosen) == 0 {
			chosen = slices.DeleteFunc(all, func(at string) bool { return !last(at) })
		}
		uses[port.Name] = chosen
	}
	return uses, nil
}

// String is such as "http 10.9.1.1:8080 10.9.2.1:8080".
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
