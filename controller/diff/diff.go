package diff

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// Compare returns the missing writes for the desired state, except those of conditions.
func Compare(st observed.State, d desired.Desired) Changes {
	c := Changes{Next: Next{
		Memory: observed.Memory{Preference: d.Preferred.Choice.Memory, NativePreference: d.Native.Preferred.Choice.Memory, Copies: d.Slices.Copies},
		Again:  observed.Sooner(d.Preferred.Choice.Again, d.Native.Again), Check: d.Checked.Targets,
	}}
	switch imp := st.Import; {
	case d.Withdrawn:
		if imp != nil && imp.DeletionTimestamp == nil {
			c.DeleteImport = imp
		}
		c.DeleteSlices, c.Delete = ourSlices(st.Slices, st.Import), d.Delete
		c.ofNative(st, d.Native)
		return c
	case imp == nil:
		c.CreateImport = d.Import
		return c
	case imp.DeletionTimestamp != nil:
		return c
	}
	c.ofImport(st, d)
	if d.ImportFirst {
		return Changes{Import: c.Import, Next: c.Next}
	}
	c.ofService(st, d)
	c.Delete = d.Delete
	if d.Exclusive {
		c.Evict = evicted(slices.Concat(st.UnexpectedSlices, st.Slices), st.Import, st.Service)
	}
	c.ofSlices(st, d.Slices)
	c.ofNative(st, d.Native)
	// Endpoints of a cluster become usable before those of another cluster become unusable.
	slices.SortStableFunc(c.UpdateSlices, func(a, b Edit[*discoveryv1.EndpointSlice]) int { return cmp.Compare(connects(b), connects(a)) })
	c.renamePorts(st, d.Merged.Ports)
	return c
}

func (c *Changes) ofImport(st observed.State, d desired.Desired) {
	// The edit that was refused first was that of the content.
	if refused := st.Refused[observed.Target{Kind: observed.Import}]; d.Import == nil || len(refused) > 1 || equality.Semantic.DeepEqual(st.Import, d.Import) {
		return
	}
	c.Import = &Edit[*mcsv1beta1.ServiceImport]{st.Import, d.Import}
	c.Events = d.Events
}

func (c *Changes) ofService(st observed.State, d desired.Desired) {
	switch {
	case d.Service == nil:
	case st.Service == nil:
		c.Create = d.Service
	case !equality.Semantic.DeepEqual(st.Service, d.Service):
		c.Service = &Edit[*corev1.Service]{st.Service, d.Service}
	case d.ServiceStatus != nil:
		c.ServiceStatus = &Edit[*corev1.Service]{st.Service, d.ServiceStatus}
	}
}

// ofNative plans the writes for the import's own name.
func (c *Changes) ofNative(st observed.State, d desired.Native) {
	if st.Native == nil {
		return
	}
	if c.Native = (Native{Apply: d.Apply, Delete: d.Delete, Release: d.Release}); d.Apply != nil {
		c.Native.Have = st.Native.Service
	}
	if svc := st.Native.Service; svc != nil && d.Delete == nil && st.Import != nil {
		c.Evict = append(c.Evict, evicted(st.Native.Local, st.Import, svc)...)
	}
	c.syncSlices(st, st.Native.Slices, d.Slices)
}

// renamePorts lets traffic go on while ports of the Service get other names (C12), also if the API server refuses that. kube-proxy finds
// the ports of slices by name, so slices have both names at first, then the Service gets the new ones, and then slices lose the former
// ones: each in a pass of its own. A name that leads to another port from now on leads to the former one until the Service has changed.
func (c *Changes) renamePorts(st observed.State, merged []mcsv1beta1.ServicePort) {
	svc := st.Service
	if svc == nil {
		return
	}
	wanted := make([]corev1.ServicePort, 0, len(merged))
	for _, p := range merged {
		wanted = append(wanted, corev1.ServicePort{Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Port: p.Port})
	}
	if c.Service != nil { // an unnamed port can have a name in it
		wanted = c.Service.New.Spec.Ports
	}
	former := formerNames(svc.Spec.Ports, wanted)
	if len(former) == 0 {
		return
	}
	var updates []Edit[*discoveryv1.EndpointSlice]
	for _, edit := range c.UpdateSlices {
		if edit.New.Labels[discoveryv1.LabelServiceName] != svc.Name {
			updates = append(updates, edit)
			continue
		}
		edit.New = withFormer(edit.New, former)
		if !isSame(edit) {
			updates = append(updates, edit)
		}
	}
	for i, slice := range c.CreateSlices {
		if slice.Labels[discoveryv1.LabelServiceName] == svc.Name {
			c.CreateSlices[i] = withFormer(slice, former)
		}
	}
	kept := slices.ContainsFunc(c.RefusedSlices, func(refused *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(st.Slices, func(slice *discoveryv1.EndpointSlice) bool { return slice.Name == refused.Name })
	})
	if c.UpdateSlices = updates; kept || len(updates)+len(c.CreateSlices) > 0 {
		c.Service = nil
	}
}

// formerNames are the names that ports had, by those that they get.
func formerNames(had, wanted []corev1.ServicePort) map[string]string {
	former := map[string]string{}
	for _, was := range had {
		same := func(p corev1.ServicePort) bool { return p.Port == was.Port && p.Protocol == was.Protocol }
		if to := slices.IndexFunc(wanted, same); to >= 0 && wanted[to].Name != was.Name {
			former[wanted[to].Name] = was.Name
		}
	}
	return former
}

func isSame(edit Edit[*discoveryv1.EndpointSlice]) bool {
	return ownership.Covers(edit.Old, edit.New) && digest.Of(edit.Old) == digest.Of(edit.New) && equality.Semantic.DeepEqual(edit.Old.OwnerReferences, edit.New.OwnerReferences)
}

// withFormer returns a slice in which the former names of its ports lead to them, too.
func withFormer(slice *discoveryv1.EndpointSlice, former map[string]string) *discoveryv1.EndpointSlice {
	const maxPorts = 100 // the API's limit
	with := slice.DeepCopy()
	for _, port := range slice.Ports {
		was, renamed := former[nameOf(port)]
		if !renamed {
			continue
		}
		port.Name = &was
		if i := slices.IndexFunc(with.Ports, func(p discoveryv1.EndpointPort) bool { return nameOf(p) == was }); i >= 0 {
			with.Ports[i] = port
		} else if len(with.Ports) < maxPorts {
			with.Ports = append(with.Ports, port)
		}
	}
	return with
}

func nameOf(p discoveryv1.EndpointPort) string {
	if p.Name == nil { // as for the API server
		return ""
	}
	return *p.Name
}

// evicted returns the slices of others that belong to a Service of the controller, if the controller owns
// both the Service and its import.
func evicted(of []*discoveryv1.EndpointSlice, imp *mcsv1beta1.ServiceImport, svc *corev1.Service) []*discoveryv1.EndpointSlice {
	all := slices.DeleteFunc(slices.Clone(of), func(slice *discoveryv1.EndpointSlice) bool { return !ownership.Unexpected(slice, imp, svc) })
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
