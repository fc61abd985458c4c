package plan

import (
	"slices"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// follow copies the addresses of a Service that others keep. No annotation says that they are ours, so they always follow.
func follow(st State) Changes {
	var c Changes
	v := is(reasonPending, "Service %s, which others keep, has no address", st.Service.Name)
	if current := clusterIPs(st.Service); len(current) > 0 {
		v = is(reasonReady, "served by Service %s, which others keep", st.Service.Name)
		edited := st.Import.DeepCopy()
		annotate(edited, AnnotationDerivedService, st.Service.Name)
		setIPs(edited, current, st.CRD, true)
		c.editImport(st, edited)
		c.Delete = living(otherServices(st))
		if len(st.Service.Spec.Selector) > 0 {
			v.notes = []string{"the imported endpoints, as Service " + st.Service.Name + " selects pods of this cluster"}
		}
	} else {
		edited := st.Import.DeepCopy()
		st.withoutTaken(edited)
		c.editImport(st, edited)
	}
	return settle(st, c, v)
}

// followOnly is for an import that Karmada manages: addresses, and nothing else.
func followOnly(st State) Changes {
	var c Changes
	edited := st.Import.DeepCopy()
	v := is(reasonPending, "Karmada has not propagated Service %s", DerivedName(st.Import))
	switch current := clusterIPs(st.Service); {
	case st.Import.Spec.Type == mcsv1beta1.Headless:
		v = is(reasonReady, "headless")
		setIPs(edited, nil, st.CRD, true)
	case len(current) > 0:
		v = is(reasonReady, "served by Service %s", st.Service.Name)
		setIPs(edited, current, st.CRD, true)
	default:
		st.withoutTaken(edited)
	}
	c.editImport(st, edited)
	return settle(st, c, v)
}

// withoutTaken takes the addresses from ips that another Service has by now: the one that they followed has none, and DNS would lead to
// the other.
func (st State) withoutTaken(edited *mcsv1beta1.ServiceImport) {
	taken := st.elsewhere(canonical(edited.Spec.IPs))
	left := slices.DeleteFunc(slices.Clone(edited.Spec.IPs), func(ip string) bool {
		return slices.ContainsFunc(canonical([]string{ip}), func(addr string) bool { return slices.Contains(taken, addr) })
	})
	if len(taken) > 0 {
		setIPs(edited, left, st.CRD, true)
	}
}
