package apiserver

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kept reports whether something else than metadata.finalizers keeps a deleted object.
func (k *kind) kept(o client.Object) bool {
	n, ok := o.(*corev1.Namespace)
	return ok && len(n.Spec.Finalizers) > 0
}

// terminate marks a deleted object that is kept.
func (k *kind) terminate(o client.Object) {
	if n, ok := o.(*corev1.Namespace); ok {
		n.Status.Phase, n.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil
	}
}

func prepareNamespace(_ *Server, old, new client.Object) error {
	n := new.(*corev1.Namespace)
	if old == nil {
		n.Spec.Finalizers, n.Status.Phase = []corev1.FinalizerName{corev1.FinalizerKubernetes}, corev1.NamespaceActive
	} else {
		n.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers // a subresource changes them
	}
	return nil
}

func namespaceDefaults(new client.Object) {
	n := new.(*corev1.Namespace)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[corev1.LabelMetadataName] = n.Name
}

func secretDefaults(new client.Object) {
	secret := new.(*corev1.Secret)
	for key, text := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
}

func checkSecret(_ *Server, old, new client.Object) error {
	secret := new.(*corev1.Secret)
	if old == nil || old.(*corev1.Secret).Type == secret.Type {
		return nil
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), secret.Name, field.ErrorList{field.Invalid(field.NewPath("type"), secret.Type, "field is immutable")})
}

func specChanged(old, new client.Object) bool {
	a, b := shallow(old).(client.Object), shallow(new).(client.Object)
	setStatus(a, b)
	for _, o := range []client.Object{a, b} {
		blank(o)
	}
	return !equality.Semantic.DeepEqual(a, b)
}

// blank removes the metadata of a shallow copy.
func blank(o client.Object) {
	kind := o.GetObjectKind().GroupVersionKind()
	switch o := o.(type) {
	case metav1.ObjectMetaAccessor:
		*(o.GetObjectMeta().(*metav1.ObjectMeta)) = metav1.ObjectMeta{}
	default:
		panic(fmt.Sprintf("%s has no metadata", kind))
	}
	o.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(""))
}

func sliceChanged(old, new client.Object) bool {
	a, b := old.(*discoveryv1.EndpointSlice), new.(*discoveryv1.EndpointSlice)
	return !equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints) || !equality.Semantic.DeepEqual(a.Ports, b.Ports) || !equality.Semantic.DeepEqual(a.Labels, b.Labels)
}

func sliceDefaults(new client.Object) {
	slice := new.(*discoveryv1.EndpointSlice)
	for i := range slice.Ports {
		p := &slice.Ports[i]
		if p.Name == nil {
			p.Name = ptr("")
		}
		if p.Protocol == nil {
			p.Protocol = ptr(corev1.ProtocolTCP)
		}
	}
}

func checkSlice(_ *Server, old, new client.Object) error {
	slice, before := new.(*discoveryv1.EndpointSlice), new.(*discoveryv1.EndpointSlice)
	if old != nil {
		before = old.(*discoveryv1.EndpointSlice)
	}
	var faults field.ErrorList
	if old == nil || !equality.Semantic.DeepEqual(before.Endpoints, slice.Endpoints) { // what was there is not looked at again
		for i := range slice.Endpoints {
			faults = append(faults, checkEndpoint(slice, i)...)
		}
	}
	if before.AddressType != slice.AddressType {
		faults = append(faults, field.Invalid(field.NewPath("addressType"), nil, "field is immutable"))
	}
	if len(slice.Endpoints) > 1000 {
		faults = append(faults, field.TooMany(field.NewPath("endpoints"), len(slice.Endpoints), 1000))
	}
	if len(faults) > 0 {
		return apierrors.NewInvalid(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice").GroupKind(), slice.Name, faults)
	}
	return nil
}

func checkEndpoint(slice *discoveryv1.EndpointSlice, i int) (faults field.ErrorList) {
	e, path := slice.Endpoints[i], field.NewPath("endpoints").Index(i)
	if len(e.Addresses) == 0 {
		faults = append(faults, field.Required(path.Child("addresses"), ""))
	}
	for n, text := range e.Addresses {
		a, err := netip.ParseAddr(text)
		switch {
		case slice.AddressType == discoveryv1.AddressTypeFQDN:
		case err != nil:
			faults = append(faults, field.Invalid(path.Child("addresses").Index(n), text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
		case string(familyOf(a)) != string(slice.AddressType):
			faults = append(faults, field.Invalid(path.Child("addresses"), text, fmt.Sprintf("must be an %s address", slice.AddressType)))
		default:
			for _, nobodys := range []struct {
				is   bool
				what string
			}{
				{a.IsUnspecified(), fmt.Sprintf("unspecified (%s)", a)},
				{a.IsLoopback(), "in the loopback range (127.0.0.0/8, ::1/128)"},
				{a.IsLinkLocalUnicast(), "in the link-local range (169.254.0.0/16, fe80::/10)"},
				{a.IsLinkLocalMulticast(), "in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
			} {
				if nobodys.is {
					faults = append(faults, field.Invalid(path.Child("addresses").Index(n), text, "may not be "+nobodys.what))
				}
			}
		}
	}
	if e.Hostname != nil {
		for _, fault := range validation.IsDNS1123Label(*e.Hostname) {
			faults = append(faults, field.Invalid(path.Child("hostname"), *e.Hostname, fault))
		}
	}
	return faults
}

func ptr[T any](v T) *T { return &v }

func serviceDefaults(new client.Object) {
	svc := new.(*corev1.Service)
	spec := &svc.Spec
	spec.Type = cmp.Or(spec.Type, corev1.ServiceTypeClusterIP)
	spec.SessionAffinity = cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone)
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	} else if spec.SessionAffinityConfig == nil || spec.SessionAffinityConfig.ClientIP == nil || spec.SessionAffinityConfig.ClientIP.TimeoutSeconds == nil {
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(corev1.DefaultClientIPServiceAffinitySeconds)}}
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if spec.ExternalTrafficPolicy == "" && needsExternalPolicy(*spec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil && spec.Type != corev1.ServiceTypeExternalName {
		spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyCluster)
	}
}

func invalid(svc *corev1.Service, faults ...*field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, faults)
}

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// needsExternalPolicy reports whether a Service has addresses for clients outside of the cluster.
func needsExternalPolicy(spec corev1.ServiceSpec) bool {
	return len(spec.ExternalIPs) > 0 || spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

// dropUnneeded removes policies that a change has left alone, but made meaningless.
func dropUnneeded(spec *corev1.ServiceSpec, old corev1.ServiceSpec) {
	if needsExternalPolicy(old) && !needsExternalPolicy(*spec) && spec.ExternalTrafficPolicy == old.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type == corev1.ServiceTypeExternalName && equality.Semantic.DeepEqual(spec.InternalTrafficPolicy, old.InternalTrafficPolicy) {
		spec.InternalTrafficPolicy = nil
	}
}

// assign gives a Service its addresses. A change keeps those that it has.
func assign(s *Server, before, after client.Object) error {
	svc, old := after.(*corev1.Service), new(corev1.Service)
	if before != nil {
		old = before.(*corev1.Service)
	}
	spec := &svc.Spec
	dropUnneeded(spec, old.Spec)
	if known := []string{corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode}; spec.TrafficDistribution != nil &&
		!slices.Contains(known, *spec.TrafficDistribution) {
		return invalid(svc, field.NotSupported(field.NewPath("spec", "trafficDistribution"), *spec.TrafficDistribution, known))
	}
	if old.Spec.Type == corev1.ServiceTypeLoadBalancer && spec.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		s.release(old)
		spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
		return nil
	}
	if len(spec.Ports) == 0 && spec.ClusterIP != corev1.ClusterIPNone {
		return invalid(svc, field.Required(field.NewPath("spec", "ports"), ""))
	}
	if err := keepAddresses(svc, old); err != nil {
		return err
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = cmp.Or(old.Spec.IPFamilyPolicy, ptr(defaultPolicy(spec)))
	}
	if err := s.families(svc, old); err != nil {
		return err
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
		return nil
	}
	return s.lease(svc, before == nil)
}

// keepAddresses completes the addresses that a Service names, and keeps those that it had.
func keepAddresses(svc, old *corev1.Service) error {
	spec := &svc.Spec
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		spec.ClusterIP = spec.ClusterIPs[0]
	case spec.ClusterIP == "":
		spec.ClusterIP, spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	case len(spec.ClusterIPs) == 0:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if old.Spec.ClusterIP != "" && old.Spec.ClusterIP != spec.ClusterIP {
		return invalid(svc, field.Invalid(field.NewPath("spec", "clusterIPs").Index(0), spec.ClusterIPs, "may not change once set"))
	}
	return nil
}

// selectsNothing reports whether a Service is headless and has no pods: it has both families in each cluster.
func selectsNothing(spec *corev1.ServiceSpec) bool {
	return spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
}

func defaultPolicy(spec *corev1.ServiceSpec) corev1.IPFamilyPolicy {
	if len(spec.ClusterIPs) > 1 || len(spec.IPFamilies) > 1 || selectsNothing(spec) {
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

// families gives a Service the families of its addresses, then those that it had, or that of the first range, and with dual-stack both.
func (s *Server) families(svc, old *corev1.Service) error {
	spec, ranges := &svc.Spec, s.options.ServiceCIDRs
	has := func(family corev1.IPFamily) bool {
		return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return familyOf(r.Addr()) == family })
	}
	spec.IPFamilies = named(spec.IPFamilies, spec.ClusterIPs)
	for _, otherwise := range [][]corev1.IPFamily{old.Spec.IPFamilies, {familyOf(ranges[0].Addr())}} {
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = otherwise
		}
	}
	for i, family := range spec.IPFamilies {
		if !has(family) {
			return invalid(svc, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	policy := *spec.IPFamilyPolicy
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(ranges) == 1 && !selectsNothing(spec) {
		return invalid(svc, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), policy, "this cluster is not configured for dual-stack services"))
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if policy != corev1.IPFamilyPolicySingleStack && !slices.Contains(spec.IPFamilies, family) && (selectsNothing(spec) || has(family)) {
			spec.IPFamilies = append(spec.IPFamilies, family)
		}
	}
	return nil
}

// named adds the families of addresses to others.
func named(families []corev1.IPFamily, addresses []string) []corev1.IPFamily {
	for _, text := range addresses {
		if a, err := netip.ParseAddr(text); err == nil && !slices.Contains(families, familyOf(a)) {
			families = append(families, familyOf(a))
		}
	}
	return families
}

// lease takes one address for each family of a Service, those that it names and free ones. It takes all of them, or none.
func (s *Server) lease(svc *corev1.Service, isNew bool) error {
	owner := client.ObjectKeyFromObject(svc)
	taken, addresses := map[netip.Addr]bool{}, []string{}
	for i, family := range svc.Spec.IPFamilies {
		at := slices.IndexFunc(s.options.ServiceCIDRs, func(r netip.Prefix) bool { return familyOf(r.Addr()) == family })
		in := s.options.ServiceCIDRs[at]
		if i < len(svc.Spec.ClusterIPs) {
			path := field.NewPath("spec", "clusterIPs")
			a, err := netip.ParseAddr(svc.Spec.ClusterIPs[i])
			switch {
			case err != nil:
				return invalid(svc, field.Invalid(path, svc.Spec.ClusterIPs[i], "must be a valid IP address"))
			case !isNew && s.leased[a] == owner:
			case !in.Contains(a):
				return invalid(svc, field.Invalid(path, svc.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: the provided network does not match the current range", a)))
			case s.leased[a] != types.NamespacedName{}:
				return invalid(svc, field.Invalid(path, svc.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", a)))
			}
			taken[a] = true
			addresses = append(addresses, a.String())
			continue
		}
		a, found := s.free(in, owner, taken)
		if !found {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: range is full"))
		}
		taken[a] = true
		addresses = append(addresses, a.String())
	}
	for a := range taken {
		s.leased[a] = owner
	}
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = addresses[0], addresses
	return nil
}

// free finds an address that no Service has, near that which the name of the Service has in the range: so it does not depend on the order of
// Services. A Service that is made again gets another one.
func (s *Server) free(in netip.Prefix, owner types.NamespacedName, taken map[netip.Addr]bool) (netip.Addr, bool) {
	bits := in.Addr().BitLen() - in.Bits()
	size := uint64(1) << min(bits, 16) // of a large range, only the beginning is used
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s.options.Seed, owner) // it returns no error
	if s.given[owner]++; s.given[owner] > 1 {
		_, _ = fmt.Fprint(h, s.given[owner])
	}
	first := h.Sum64() % size
	for i := range size {
		n := (first + i) % size
		if n == 0 || n == size-1 && in.Addr().Is4() && bits <= 16 {
			continue // the network's own
		}
		raw := in.Masked().Addr().AsSlice()
		raw[len(raw)-1] += byte(n)
		raw[len(raw)-2] += byte(n >> 8)
		a, _ := netip.AddrFromSlice(raw)
		if _, used := s.leased[a]; !used && !taken[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func releaseService(s *Server, gone client.Object) { s.release(gone.(*corev1.Service)) }

func (s *Server) release(svc *corev1.Service) {
	for _, text := range svc.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil && s.leased[a] == client.ObjectKeyFromObject(svc) {
			delete(s.leased, a)
		}
	}
}
