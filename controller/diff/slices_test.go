package diff

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/desired"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// A slice that is wanted, and whose cluster is awaited, is written once: a second write would be refused. Found by a random history.
func TestOneWriteForWantedAndAwaited(t *testing.T) {
	had := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "foo.east.ipv4-0123456789", Labels: map[string]string{
		discoveryv1.LabelManagedBy: mcs.ControllerName, mcs.LabelStandby: "true",
	}}}
	want := had.DeepCopy()
	delete(want.Labels, mcs.LabelStandby)
	d := desired.Slices{
		Wanted: []*discoveryv1.EndpointSlice{want}, Awaited: func(*discoveryv1.EndpointSlice) string { return "east" },
		Standby: func(*discoveryv1.EndpointSlice) preference.Standby { return preference.Connected },
	}
	var c Changes
	c.syncSlices(observed.State{Import: new(mcsv1beta1.ServiceImport)}, []*discoveryv1.EndpointSlice{had}, d)
	if len(c.UpdateSlices) != 1 || len(c.KeepSlices)+len(c.MoveSlices) != 0 {
		t.Errorf("%+v, want one update", c)
	}
}
