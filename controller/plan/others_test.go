package plan

import (
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// theirs returns a slice of foo that the controller did not make.
func theirs(name string, more ...string) *discoveryv1.EndpointSlice {
	labels := map[string]string{mcsv1beta1.LabelServiceName: "foo", mcsv1beta1.LabelSourceCluster: "c1", discoveryv1.LabelManagedBy: "me"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	slice := sliceOf(name, "10.66.0.1", labels)
	slice.Namespace = "default"
	return slice
}

// says checks that the message of the import's Ready contains the words.
func (c *oneName) says(t *testing.T, words string) {
	t.Helper()
	if ready := meta.FindStatusCondition(c.imp.Status.Conditions, "Ready"); ready == nil || !strings.Contains(ready.Message, words) {
		t.Errorf("Ready is %+v; want %q", ready, words)
	}
}

// A slice that others labelled for an import that the controller owns belongs to no Service of the
// controller, and stays unchanged. A slice with the label of the derived Service is deleted as a
// whole, because kube-proxy would keep its endpoints if it only lost that label. In an import that
// is handed back to others, their slices count: each gets a copy for kube-proxy. An empty slice describes
// the Service for the peers.
func TestSlicesOfOthersGetNoTraffic(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.9.1.1"))
	c.settle(t)
	c.slices = append(c.slices, theirs("spy"), theirs("led", discoveryv1.LabelServiceName, "derived-foo"), theirs("apart", discoveryv1.LabelServiceName, "apart"))
	c.settle(t)
	leads := map[string]string{}
	for _, slice := range c.slices {
		name, _, _ := strings.Cut(slice.Name, ".")
		leads[name] = slice.Labels[discoveryv1.LabelServiceName]
		if name != "foo" && (len(slice.OwnerReferences) > 0 || slice.Labels[discoveryv1.LabelManagedBy] != "me") {
			t.Errorf("%s has become %+v", slice.Name, slice)
		}
	}
	equal(t, "where they lead", leads, map[string]string{"foo": "derived-foo", "spy": "", "apart": "apart"})
	c.says(t, "left out: EndpointSlices that multicluster-controller does not manage: apart, spy")

	handOver(c.imp)
	c.settle(t)
	equal(t, "labels", labels(&c.world), []string{"spy=", "apart=apart", "ours=derived-foo", "ours=derived-foo", "ours=derived-foo"})
}

// A slice of others that has the name and the labels of one of the controller's slices is not
// written: the import's condition reports what is missing.
func TestOurNameTaken(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.9.1.1"))
	c.settle(t)
	c.slices = []*discoveryv1.EndpointSlice{theirs(c.slices[0].Name)}
	c.settle(t)
	if c.slices[0].Labels[discoveryv1.LabelManagedBy] != "me" || c.slices[0].Endpoints[0].Addresses[0] != "10.66.0.1" {
		t.Errorf("it was written: %+v", c.slices[0])
	}
	c.says(t, "endpoints of c1: an EndpointSlice of the name "+c.slices[0].Name+" exists and the controller does not own it: delete it")
}

// The same holds for a slice that is being deleted and has a finalizer: it would otherwise serve
// for as long as its writer wants. It is not copied.
func TestSlicesOfOthersWithFinalizersGetNoTraffic(t *testing.T) {
	c := newName("c1", exporting("c1", 0, 80, "10.9.1.1"))
	c.settle(t)
	held := func(name string, more ...string) *discoveryv1.EndpointSlice {
		slice := theirs(name, more...)
		slice.DeletionTimestamp, slice.Finalizers = &noon, []string{"example.org/held"}
		return slice
	}
	c.slices = append(c.slices, held("led", discoveryv1.LabelServiceName, "derived-foo"), held("spy"))
	c.settle(t)
	handOver(c.imp)
	c.settle(t)
	equal(t, "labels", labels(&c.world), []string{"spy=", "ours=derived-foo"})
}
