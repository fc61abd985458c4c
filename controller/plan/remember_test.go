package plan

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/controller/observed"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

func withPort(m merge.Member, name string, port int32) merge.Member {
	m.Service.Ports = append(m.Service.Ports, mcsv1beta1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port})
	return m
}

func (c *oneName) ports() string {
	var all []string
	for _, p := range c.imp.Spec.Ports {
		all = append(all, fmt.Sprintf("%s %d", p.Name, p.Port))
	}
	return strings.Join(all, ", ")
}

// portsFrom returns the ports in the slices of a cluster.
func (c *oneName) portsFrom(cluster string) (names []string) {
	for _, s := range c.slices {
		for _, p := range s.Ports {
			if s.Labels[mcsv1beta1.LabelSourceCluster] == cluster {
				names = append(names, *p.Name)
			}
		}
	}
	return names
}

// TestImportFollowsOthersWhileAPeerIsSilent is a regression test: after a restart, a peer that did
// not answer kept the import unchanged. The import took over no new port, type or conflict of the
// other clusters until the peer's Secret was deleted.
func TestImportFollowsOthersWhileAPeerIsSilent(t *testing.T) {
	for _, expired := range []bool{false, true} {
		home := exporting("c1", 1, 80, "10.1.0.1")
		c := newName("c1", home, mirrored(exporting("c2", 0, 80, "10.2.0.1")), mirrored(exporting("c3", 2, 80, "10.3.0.1")))
		c.settle(t)
		c.Members = []merge.Member{home, mirrored(withPort(exporting("c3", 2, 80, "10.3.0.1"), "metrics", 9090))}
		if expired {
			c.SilentExpired = []string{"c2"}
		} else {
			c.Silent = []string{"c2"}
		}
		c.settle(t)
		equal(t, "ports", c.ports(), "http 80, metrics 9090")
		equal(t, "conflict", meta.FindStatusCondition(c.Export.Status.Conditions, "Conflict").Reason, "PortConflict")
		addresses := []string{"10.1.0.1", "10.2.0.1", "10.3.0.1"}
		if expired {
			addresses = []string{"10.1.0.1", "10.3.0.1"}
		}
		c.shows(t, "c1,c2,c3", 80, addresses...)
		// The record of the silent cluster outlasts this: it is still the oldest export.
		c.Members[0] = exporting("c1", 1, 8080, "10.1.0.1")
		c.settle(t)
		equal(t, "ports when a younger export changes", c.ports(), "http 80, metrics 9090")
		c.SilentExpired, c.Silent = nil, nil
		c.settle(t)
		equal(t, "ports when it has left", c.ports(), "http 8080, metrics 9090")
	}
}

// TestSilentPeersSlicesFollowTheImport is a regression test: without a record of a silent peer (an
// import of a former release), the import stays unchanged. The slices were made from the merge of
// the other clusters: they had ports that had lost a conflict, and lost their hints.
func TestSilentPeersSlicesFollowTheImport(t *testing.T) {
	near := func(m merge.Member) merge.Member {
		m.Service.Distribution = corev1.ServiceTrafficDistributionPreferClose
		return m
	}
	zoned := func(m merge.Member) merge.Member {
		for i := range m.Slices[0].Endpoints {
			m.Slices[0].Endpoints[i].Zone = new("z1")
		}
		return m
	}
	home := zoned(exporting("c1", 1, 8080, "10.1.0.1"))
	c := newName("c1", home, mirrored(near(zoned(exporting("c2", 0, 80, "10.2.0.1")))))
	c.settle(t)
	equal(t, "ports of c1, which lost the conflict", len(c.portsFrom("c1")), 0)
	delete(c.imp.Annotations, mcs.AnnotationExports)
	c.Members, c.Silent = []merge.Member{home}, []string{"c2"}
	if changes := Plan(c.state()); !changes.Empty() {
		t.Errorf("planned while c2 is silent: %+v", changes)
	}
	// The same holds with a record.
	c.Members, c.Silent = []merge.Member{home, mirrored(near(zoned(exporting("c2", 0, 80, "10.2.0.1"))))}, nil
	c.settle(t)
	c.Members, c.Silent = []merge.Member{home}, []string{"c2"}
	if changes := Plan(c.state()); !changes.Empty() {
		t.Errorf("planned while c2 is silent and recorded: %+v", changes)
	}
}

// TestServiceReplacedByForce is a regression test: the Service of the only exporter was deleted and
// created again, while its ServiceExport existed all the time. The import was deleted, and its
// address was lost.
func TestServiceReplacedByForce(t *testing.T) {
	// Either this cluster exports, or its peer c2.
	for _, home := range []string{"c1", "c2"} {
		full := exporting("c1", 0, 80, "10.1.0.1")
		if home == "c2" {
			full = mirrored(exporting("c2", 0, 80, "10.2.0.1"))
		}
		c := newName("c1", full)
		if home == "c2" {
			c.Export = nil
		}
		c.settle(t)
		ips, endpoints := c.imp.Spec.IPs, c.slices[0].Endpoints[0].Addresses[0]
		for _, gap := range []func(*merge.Member){
			func(m *merge.Member) { m.Service = nil },
			// The slices of this cluster's own Service are deleted with it,
			func(m *merge.Member) { m.Service, m.Slices = nil, nil },
			// and created a moment after the new one.
			func(m *merge.Member) { m.Slices = nil },
		} {
			vacant := full
			if gap(&vacant); home == "c2" {
				vacant.Slices = full.Slices // The slices that its controller made also stay there.
			}
			c.Members, c.Vacant = []merge.Member{vacant}, []string{home}
			c.settle(t)
			c.shows(t, home, 80, endpoints)
			equal(t, "ips", c.imp.Spec.IPs, ips)
		}
		c.Members, c.Vacant = []merge.Member{full}, nil
		c.settle(t)
		c.shows(t, home, 80, endpoints)
		// If the Service stays away, everything is deleted.
		full.Service, full.Slices = nil, nil
		c.Members = []merge.Member{full}
		c.settle(t)
		if c.imported || len(c.slices) > 0 {
			t.Errorf("the import is there: %v, with %d slices", c.imported, len(c.slices))
		}
	}
}

// What an import contains of other clusters outlasts the controller's memory of them. This cluster
// can have had another ID.
func TestImportsRememberOtherClusters(t *testing.T) {
	c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), mirrored(exporting("c2", 0, 80, "10.2.0.1")), mirrored(exporting("c3", 2, 80, "10.3.0.1")))
	c.settle(t)
	equal(t, "remembered", strings.Join(observed.RecordedClusters(c.imp), ","), "c2,c3")
	delete(c.imp.Annotations, mcs.AnnotationExports)
	equal(t, "remembered by the status alone", strings.Join(observed.RecordedClusters(c.imp), ","), "c1,c2,c3")
	c.imp.Labels = nil
	equal(t, "of an import of others", len(observed.RecordedClusters(c.imp)), 0)
}

// A lost status, as after the restore of a backup, does not make a peer unknown: the import stays,
// with its address.
func TestRecordOutlastsTheStatus(t *testing.T) {
	for _, expired := range []bool{false, true} {
		c := newName("c1", mirrored(exporting("c2", 0, 80, "10.2.0.1")))
		c.Export = nil
		c.settle(t)
		ips := c.imp.Spec.IPs
		c.imp.Status, c.slices, c.Members = mcsv1beta1.ServiceImportStatus{}, nil, nil
		if expired {
			c.SilentExpired = []string{"c2"}
		} else {
			c.Silent = []string{"c2"}
		}
		c.settle(t)
		if !c.imported || len(ips) == 0 || fmt.Sprint(c.imp.Spec.IPs) != fmt.Sprint(ips) {
			t.Errorf("imported %v, ips %v; want %v", c.imported, c.imp, ips)
		}
	}
}

// The record has a size limit, and an invalid annotation is ignored.
func TestRecordIsBounded(t *testing.T) {
	var all []merge.Member
	for i := range 200 {
		m := exporting(fmt.Sprintf("c%d", i), i, 80)
		for p := range int32(100) {
			m = withPort(m, fmt.Sprintf("p%d", p), p+1000)
		}
		all = append(all, m)
	}
	const most = 64 << 10
	if text := Plan(newName("c1", all...).state()).CreateImport.Annotations[mcs.AnnotationExports]; len(text) > most+most/10 || len(text) < most/2 {
		t.Errorf("the record has %d bytes", len(text))
	}
	for _, text := range []string{"", "x", "[]", `{"c2":7}`, `{"c2":{}}`, `{"c2":{"Spec":{"External":true}}}`} {
		c := newName("c1", exporting("c1", 1, 80, "10.1.0.1"), mirrored(exporting("c2", 0, 8080, "10.2.0.1")))
		c.settle(t)
		c.imp.Annotations[mcs.AnnotationExports] = text
		c.Members, c.Silent = c.Members[:1], []string{"c2"}
		c.settle(t)
		c.shows(t, "c1,c2", 8080, "10.1.0.1", "10.2.0.1")
	}
}
