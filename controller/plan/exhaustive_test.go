package plan

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/preference"
	"github.com/clusterset-dns/multicluster/internal/mcs"
)

// Of the orders in which clusters become ready and fail, people change their minds, and a controller makes one write after another, all are played
// up to a depth. After each write, kube-proxy uses an endpoint that is ready, if it did before.
//
// A state is all that a plan sees and that changes here.

var depth = flag.Int("depth", 0, "how many things happen one after the other, instead of a few")

// machine is a state of what is tested. Nobody edits it.
type machine interface {
	// next are the states that can follow, each with the event, and whether that is a write.
	next(t *testing.T) []event
	// works are the clusters whose endpoints kube-proxy uses and that are ready.
	works() string
	// key tells states apart.
	key() string
}

type event struct {
	what  string
	write bool
	to    machine
}

// explore visits all states up to a depth.
func explore(t *testing.T, first machine, few int) {
	t.Helper()
	if *depth > 0 {
		few = *depth
	}
	type path struct {
		machine
		by string
	}
	seen, layer, tried := map[string]bool{first.key(): true}, []path{{first, ""}}, 0
	for range few {
		var following []path
		for _, was := range layer {
			before := was.works()
			for _, e := range was.next(t) {
				tried++
				by := was.by + "; " + e.what
				if e.write && before != "" && e.to.works() == "" {
					t.Fatalf("after%s: kube-proxy used %s, and now nothing that is ready", by, before)
				}
				if key := e.to.key(); !seen[key] {
					seen[key] = true
					following = append(following, path{e.to, by})
				}
			}
		}
		layer = following
	}
	t.Logf("%d events in %d states", tried, len(seen))
}

// slicesKey is what kube-proxy and a plan see of slices.
func slicesKey(all []*discoveryv1.EndpointSlice) string {
	var texts []string
	for _, s := range all {
		text := fmt.Sprint(s.Name, s.Labels[discoveryv1.LabelServiceName], s.Labels[mcs.LabelStandby])
		for _, e := range s.Endpoints {
			c := e.Conditions
			for _, is := range []*bool{c.Ready, c.Serving, c.Terminating} {
				text += fmt.Sprint(" ", is == nil || *is)
			}
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

// memoryKey has ages instead of times, of which those beyond return-after are equal.
func memoryKey(m preference.Memory, now time.Time) string {
	text := m.InUse
	for _, entry := range slices.Sorted(maps.Keys(m.Since)) {
		text += fmt.Sprint(" ", entry, min(now.Sub(m.Since[entry]), 10*time.Second))
	}
	return text
}

// importKey is the import without what follows from all else.
func importKey(imp *mcsv1beta1.ServiceImport) string {
	if imp == nil {
		return ""
	}
	text := fmt.Sprint(imp.Spec, imp.Annotations, imp.Status.Clusters)
	for _, c := range imp.Status.Conditions {
		text += c.Type + string(c.Status) + c.Reason
	}
	return text
}

// readyOnly are the clusters of a list that are ready.
func readyOnly(used string, ready map[string]bool) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(used), func(id string) bool { return !ready[id] }), " ")
}

// switching is the name of three clusters whose exports prefer some of them.
type switching struct {
	*regional
	present []string
}

func (s switching) edit(t *testing.T, what string, edit func(*switching)) event {
	t.Helper()
	name := *s.oneName
	name.services, name.slices, name.associated = maps.Clone(name.services), slices.Clone(name.slices), maps.Clone(name.associated)
	next := switching{&regional{&name, maps.Clone(s.ready), s.list, s.kind}, slices.Clone(s.present)}
	edit(&next)
	next.update(next.present...)
	return event{what: what, to: next}
}

func (s switching) next(t *testing.T) (all []event) {
	t.Helper()
	for _, id := range []string{"c1", "c2", "c3"} {
		all = append(all, s.edit(t, "endpoints of "+id, func(s *switching) { s.ready[id] = !s.ready[id] }))
	}
	for _, list := range []string{nearest, "cluster=c2, any", "local, cluster=c3, any"} {
		if list != s.list {
			all = append(all, s.edit(t, "list "+list, func(s *switching) { s.list = list }))
		}
	}
	all = append(all, s.edit(t, "c3 silent or back", func(s *switching) {
		if at := slices.Index(s.present, "c3"); at >= 0 {
			s.present = slices.Delete(s.present, at, at+1)
		} else {
			s.present = append(s.present, "c3")
		}
	}), s.edit(t, "10 s", func(s *switching) { s.later += 10 * time.Second }))
	if changes := Plan(s.state()); !changes.Empty() {
		write := s.edit(t, "a write", func(s *switching) {
			s.choice = changes.Preference
			if s.apply(changes, 1) == 0 && changes.ExportStatus != nil {
				s.Export = changes.ExportStatus.New
			}
		})
		write.write = true
		all = append(all, write)
	}
	return all
}

// works believes what was last heard of a silent cluster.
func (s switching) works() string {
	ready := maps.Clone(s.ready)
	for _, id := range s.Silent {
		ready[id] = true
	}
	return readyOnly(s.usable(), ready)
}

func (s switching) key() string {
	return fmt.Sprint(s.ready, s.present, s.list, "\n", memoryKey(s.choice, noon.Add(s.later)), "\n", importKey(s.imp), "\n", slicesKey(s.slices))
}

func TestEveryOrderOfSwitching(t *testing.T) {
	explore(t, switching{newRegional(t, nearest), []string{"c1", "c2", "c3"}}, 8)
}

// owning is the own name of an import: the controller's Service takes it over where nobody has it, and gives it to a user who wants it.
type owning struct {
	*named
}

func (o owning) edit(what string, edit func(*named)) event {
	name, n := *o.oneName, *o.named
	name.services, name.slices, name.associated = maps.Clone(name.services), slices.Clone(name.slices), maps.Clone(name.associated)
	n.oneName, n.ready = &name, maps.Clone(o.ready)
	edit(&n)
	n.update()
	return event{what: what, to: owning{&n}}
}

func (o owning) next(*testing.T) (all []event) {
	for _, id := range []string{"c1", "c2", "c3"} {
		all = append(all, o.edit("endpoints of "+id, func(n *named) { n.ready[id] = !n.ready[id] }))
	}
	all = append(all, o.edit("permitted or not", func(n *named) { n.allowed = !n.allowed }))
	for _, list := range []string{"", "local, any", "cluster=c2, any"} {
		if list != o.list {
			all = append(all, o.edit("list "+list, func(n *named) { n.list = list }))
		}
	}
	if o.user != nil {
		all = append(all, o.edit("the user's Service goes", func(n *named) { n.user = nil }))
	} else {
		all = append(all, o.edit("a user's Service", func(n *named) { n.user = usersFoo(); delete(n.services, "foo") }),
			o.edit("a user's Service without a selector", func(n *named) { n.user = usersFoo(); n.user.Spec.Selector = nil; delete(n.services, "foo") }))
	}
	if changes := Plan(o.state()); !changes.Empty() {
		for count := range o.writesOf(changes) {
			write := o.edit(fmt.Sprint("write ", count+1), func(n *named) {
				n.choice, n.own = changes.Preference, changes.NativePreference
				for _, make := range n.writesOf(changes)[:count+1] {
					make()
				}
			})
			write.write = true
			all = append(all, write)
		}
	}
	return all
}

// works is nobody without a Service. Where the name is not permitted any more, nobody else has a right to it.
func (o owning) works() string {
	ready := o.ready
	switch {
	case o.user == nil && o.services["foo"] == nil:
		return ""
	case !o.allowed:
		ready = map[string]bool{"c1": o.ready["c1"]}
	}
	return readyOnly(o.used(), ready)
}

func (o owning) key() string {
	return fmt.Sprint(o.ready, o.list, o.allowed, "\n", serviceKey(o.user), serviceKey(o.services["foo"]), memoryKey(o.own, noon.Time), memoryKey(o.choice, noon.Time), "\n",
		importKey(o.imp), "\n", slicesKey(o.slices), "\n", slicesKey(o.attached))
}

func serviceKey(svc *corev1.Service) string {
	if svc == nil {
		return "none "
	}
	return fmt.Sprint(svc.Labels, svc.Annotations, svc.Spec.Selector, svc.Spec.Ports, svc.Spec.ClusterIPs)
}

func TestEveryOrderOfOwning(t *testing.T) {
	explore(t, owning{newNamed("local, any")}, 6)
}
