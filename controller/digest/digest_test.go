package digest

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset-dns/multicluster/controller/preference"
)

// A slice without its endpoints is compared and counted as before, also on standby.
func TestKeep(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	for i := range 12 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(i > 0), Serving: new(i > 0)},
		})
	}
	standby := slice.DeepCopy()
	standby.Labels = map[string]string{}
	reserve := standby.DeepCopy()
	preference.Disconnect(standby, preference.Off)
	preference.Disconnect(reserve, preference.Reserve)
	for what, whole := range map[string]*discoveryv1.EndpointSlice{"connected": slice, "on standby": standby, "in reserve": reserve, "empty": {}} {
		kept := whole.DeepCopy()
		Keep(kept)
		all, ready := Count(kept)
		if wantAll, wantReady := Count(whole); all != wantAll || ready != wantReady || all != len(whole.Endpoints) || all > 0 && ready != 11 {
			t.Errorf("%s: %d of %d are ready", what, ready, all)
		}
		if len(kept.Endpoints) > 0 || !Same(kept, whole) {
			t.Errorf("%s: it is not the same without its endpoints", what)
		}
	}
	if Same(slice, standby) {
		t.Error("a slice on standby is the same as a connected one")
	}
}
