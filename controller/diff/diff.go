package diff

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
)

// Compare returns the missing writes for the desired state, except those of conditions.
func Compare(st observed.State, d desired.Desired) Changes {
	c := Changes{Retry: d.Retry, RetryAddress: d.RetryAddress, Preference: d.Preferred.Choice.Memory, Again: d.Preferred.Choice.Again}
	switch imp := st.Import; {
	case d.Withdrawn:
		if imp != nil && imp.DeletionTimestamp == nil {
			c.DeleteImport = imp
		}
		c.DeleteSlices = ourSlices(st)
		return c
	case imp == nil:
		c.CreateImport = d.Import
		return c
	case imp.DeletionTimestamp != nil:
		return c
	}
	c.ofImport(st, d)
	if d.ImportFirst {
		return Changes{Import: c.Import, Preference: c.Preference, Again: c.Again}
	}
	c.ofService(st, d)
	c.Delete = d.Delete
	if d.Exclusive {
		c.Evict = evicted(st)
	}
	c.ofSlices(st, d.Slices)
	if c.Service != nil && len(c.CreateSlices)+len(c.UpdateSlices) > 0 && renamesUnnamed(c.Service) {
		// The slices get the port's new name first, then the Service: its traffic never stops
		// (C12).
		c.Service = nil
	}
	return c
}

func (c *Changes) ofImport(st observed.State, d desired.Desired) {
	if d.Import == nil || equality.Semantic.DeepEqual(st.Import, d.Import) {
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

// renamesUnnamed reports whether an edit of a Service names its unnamed port.
func renamesUnnamed(edit *Edit[*corev1.Service]) bool {
	unnamed := func(svc *corev1.Service) bool {
		return slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "" })
	}
	return unnamed(edit.Old) && !unnamed(edit.New)
}
