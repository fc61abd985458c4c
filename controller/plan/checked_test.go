package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset-dns/multicluster/controller/datapath"
	"github.com/clusterset-dns/multicluster/controller/digest"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// probed is foo in c1, which is home, in c2 and c3, all on port 81.
type probed struct {
	*regional
	fails map[string]bool // addresses
}

func newProbed(t *testing.T, list string) *probed {
	t.Helper()
	p := &probed{newRegional(t, list), map[string]bool{}}
	p.Probes = true
	return p
}

// find plans, and answers each endpoint that is to be checked. It returns what the condition says.
func (p *probed) find(t *testing.T) (reason, message string) {
	t.Helper()
	for range 2 { // the second time with the answers to the first
		check := Plan(p.state()).Check
		p.Checked = map[string]map[datapath.Target]bool{}
		for id, targets := range check {
			if p.Checked[id] = map[datapath.Target]bool{}; id == p.Home {
				t.Error("endpoints of the own cluster are checked")
			}
			for at := range targets {
				equal(t, "port", at.Port(), 81)
				p.Checked[id][at] = p.fails[at.Addr().String()]
			}
		}
		p.settle(t)
	}
	if c := meta.FindStatusCondition(p.imp.Status.Conditions, "EndpointsProbed"); c != nil {
		return c.Reason, c.Message
	}
	return "", ""
}

// export sets the annotation of all exports.
func (p *probed) export(probe bool) {
	for i := range p.Members {
		p.Members[i].Export.Probe = probe
	}
}

func (p *probed) annotate(value string) {
	p.imp.Annotations = map[string]string{mcs.AnnotationProbe: value}
}

// The import decides whether endpoints are checked, otherwise the export.
func TestWhoAsksForProbes(t *testing.T) {
	for name, c := range map[string]struct {
		export bool
		imp    string
		off    bool
		want   string
	}{
		"nobody":                        {want: ""},
		"the export":                    {export: true, want: "AllAccept"},
		"the import":                    {imp: "true", want: "AllAccept"},
		"the import refuses":            {export: true, imp: "false", want: ""},
		"nonsense, and the export asks": {export: true, imp: "yes please", want: "AllAccept"},
		"nonsense":                      {imp: "yes please", want: ""},
		"the controller does not probe": {export: true, off: true, want: "ProbesOff"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbed(t, "")
			p.export(c.export)
			if p.Probes = !c.off; c.imp != "" {
				p.annotate(c.imp)
			}
			reason, _ := p.find(t)
			equal(t, "reason", reason, c.want)
			var asked []string
			for id := range p.Checked {
				asked = append(asked, id)
			}
			equal(t, "clusters", joined(asked), map[bool]string{true: "c2 c3"}[c.want == "AllAccept"])
			told := strings.Contains(p.message(), `annotation clusterset-dns.io/probe, because it is "yes please"`)
			equal(t, "a message about the annotation", told, c.imp == "yes please")
		})
	}
}

// Endpoints that do not accept connections get no traffic until they do, except for the last.
func TestFailingEndpointsGetNoTraffic(t *testing.T) {
	p := newProbed(t, "")
	p.export(true)
	for _, step := range []struct {
		ready  string // the clusters that report their endpoint as ready
		fails  string // addresses
		want   string // the clusters that get traffic
		reason string
		named  string
	}{
		{"c1 c2 c3", "", "c1 c2 c3", "AllAccept", ""},
		{"c1 c2 c3", "10.2.0.1", "c1 c3", "SomeFail", "c2 10.2.0.1:81. They get no traffic"},
		{"c1 c2 c3", "10.2.0.1 10.3.0.1", "c1", "SomeFail", "2 ready endpoints of other clusters do not accept TCP connections from this cluster: c2 10.2.0.1:81, c3 10.3.0.1:81"},
		{"c1 c2 c3", "10.1.0.1 10.3.0.1", "c1 c2", "SomeFail", "c3"}, // those of home are not checked
		{"c2 c3", "10.2.0.1 10.3.0.1", "c2 c3", "NoneAccepts", "They get traffic nevertheless"},
		{"c2 c3", "10.3.0.1", "c2", "SomeFail", "c3"},
		{"c2", "10.3.0.1", "c2", "AllAccept", ""}, // one that is not ready is not checked
		{"c1", "10.3.0.1", "c1", "NothingToProbe", ""},
		{"c1 c2 c3", "", "c1 c2 c3", "AllAccept", ""},
	} {
		for _, id := range []string{"c1", "c2", "c3"} {
			p.ready[id] = slices.Contains(strings.Fields(step.ready), id)
		}
		p.update("c1", "c2", "c3")
		p.export(true)
		p.fails = map[string]bool{}
		for _, address := range strings.Fields(step.fails) {
			p.fails[address] = true
		}
		reason, message := p.find(t)
		equal(t, "usable with "+step.fails, p.usable(), step.want)
		equal(t, "reason with "+step.fails, reason, step.reason)
		if !strings.Contains(message, step.named) {
			t.Errorf("with %s, the message is %q", step.fails, message)
		}
	}
}

// A preference goes to the next cluster when the endpoints of the first fail.
func TestPreferenceWithoutFailingEndpoints(t *testing.T) {
	p := newProbed(t, "cluster=c2, cluster=c3")
	p.export(true)
	p.find(t)
	equal(t, "usable", p.usable(), "c2")
	p.fails["10.2.0.1"] = true
	p.find(t)
	equal(t, "usable while c2 fails", p.usable(), "c3")
}

// A process that starts finds in the slices which endpoints failed, also in those of the cache.
// Without the annotation, nothing is left of it.
func TestFailuresAreRemembered(t *testing.T) {
	p := newProbed(t, "")
	p.export(true)
	p.fails["10.2.0.1"] = true
	p.find(t)
	equal(t, "usable", p.usable(), "c1 c3")

	p.Checked = nil // a new process
	p.settle(t)
	equal(t, "usable after a restart", p.usable(), "c1 c3")
	st := p.state()
	st.Slices = nil
	for _, slice := range p.slices {
		slice = slice.DeepCopy()
		digest.Keep(slice)
		st.Slices = append(st.Slices, slice)
	}
	changes := Plan(st)
	if !changes.Empty() {
		t.Errorf("with the slices of the cache, it plans %+v", changes)
	}
	for at, fails := range changes.Check["c2"] {
		if !fails {
			t.Errorf("%v is checked as if it accepted connections", at)
		}
	}
	equal(t, "checked", len(changes.Check["c2"]), 1)

	p.export(false)
	p.find(t)
	equal(t, "usable without the annotation", p.usable(), "c1 c2 c3")
	for _, slice := range p.slices {
		if _, marked := slice.Annotations[mcs.AnnotationFailing]; marked {
			t.Errorf("the slice %s still has the annotation", slice.Name)
		}
	}
}

// An import with more endpoints than are checked says so, and the others get traffic.
func TestMoreEndpointsThanAreChecked(t *testing.T) {
	p := newProbed(t, "")
	var many []discoveryv1.Endpoint
	for i := range datapath.MaxChecked + 10 {
		many = append(many, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.2.%d.%d", i/100, i%100)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}})
	}
	for i := range p.Members {
		if m := &p.Members[i]; m.Cluster == "c2" {
			long := m.Slices[0].DeepCopy()
			long.Endpoints = many
			m.Slices = []*discoveryv1.EndpointSlice{long}
		}
	}
	p.MaxEndpoints = 1000
	p.export(true)
	_, message := p.find(t)
	equal(t, "checked", len(p.Checked["c2"]), datapath.MaxChecked)
	if !strings.Contains(message, "only 250 endpoints of a cluster are tested") {
		t.Errorf("message %q", message)
	}
}
