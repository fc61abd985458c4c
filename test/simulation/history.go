package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// history returns a random story: what users, tools, networks and machines do to a clusterset, step by step, and then "settle". It follows from
// the seed.
func history(seed uint64, steps int) []string {
	h := &dice{Rand: rand.New(rand.NewPCG(seed, 0))}
	h.clusters = 2 + h.IntN(2)
	if h.one(12) {
		h.clusters = 4 + h.IntN(2)
	}
	if h.clusters > 2 && h.one(4) {
		h.liar = fmt.Sprintf("member%d", h.clusters)
	}
	story := []string{fmt.Sprintf("clusters %d", h.clusters) + h.pick("", "", " peer-timeout=1m")}
	if h.features = h.one(3); h.features {
		story[0] += h.pick("", "", " auto-export=on") + h.pick("", " native-names=kubernetes.io/metadata.name")
	}
	if h.replicas = h.one(4); h.replicas {
		story[0] += " leader-elect=true"
	}
	for len(story) < 4 { // so that something is there
		m := h.id()
		story = append(story, m+": service foo "+h.ports()+strings.Join(h.own(m), " "), h.member()+"export foo")
	}
	for len(story) <= steps {
		story = append(story, h.step())
		if !h.one(3) {
			story = append(story, "wait "+h.pick("10ms", "50ms", "200ms", "1s", "3s", "10s", "1m", "5m"))
		}
	}
	return append(story, "settle")
}

// dice make what a history consists of.
type dice struct {
	*rand.Rand
	clusters int
	liar     string // the hostile one, or nobody
	replicas bool   // controllers can have two
	features bool   // people use what the oracle does not know
}

// one is true in one of n cases.
func (d *dice) one(n int) bool { return d.IntN(n) == 0 }

func (d *dice) pick(from ...string) string { return from[d.IntN(len(from))] }

func (d *dice) id() string { return fmt.Sprintf("member%d", 1+d.IntN(d.clusters)) }

func (d *dice) member() string { return d.id() + ": " }

func (d *dice) name() string { return d.pick("foo", "foo", "foo", "bar", "depot/foo") }

func (d *dice) ports() string {
	return d.pick("80 ", "80 ", "80 ", "8080 ", ":80 ", "80 web:81 ", "web:80 dns:53/UDP ")
}

// step is one thing that happens.
func (d *dice) step() string {
	type kind struct {
		weight int
		make   func() string
	}
	kinds := []kind{
		{12, d.users}, {4, d.slips}, {3, d.edits}, {4, d.machines}, {3, d.networks}, {2, d.refusals}, {1, d.others},
	}
	if d.liar != "" {
		kinds = append(kinds, kind{5, func() string { return d.lies(d.liar) }})
	}
	if d.features {
		kinds = append(kinds, kind{5, d.extensions})
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := d.IntN(sum)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			return k.make()
		}
	}
	panic("unreachable")
}

// users is what people do on purpose.
func (d *dice) users() string {
	m := d.id()
	own := func() string { // endpoints of the cluster itself
		return strings.TrimSpace(strings.Join(d.own(m), " "))
	}
	switch d.IntN(16) {
	case 12:
		return m + ": endpoints bar slice=two " + strings.ReplaceAll(own(), "10.9."+m[6:]+".", "10.9."+m[6:]+".2")
	case 13:
		return m + ": endpoints bar" + d.pick(" slice=many 10.9."+m[6:]+".100..120", " slice=six fd00::"+m[6:], " slice=many")
	case 14:
		return m + ": delete endpointslice " + d.pick("foo-abc", "bar-abc", "bar-abctwo", "bar-abcmany")
	case 15:
		peer := d.pick("member1", "member2")
		if peer == m { // a controller does not start with itself as a peer
			return "connect"
		}
		return m + ": " + d.pick("leave ", "join ", "join ", "join ") + peer
	case 0, 1, 2:
		return m + ": service " + d.name() + " " + d.ports() + own()
	case 3:
		return m + ": service " + d.name() + " " + d.ports() + d.pick("type=NodePort ", "affinity=ClientIP ", "internal=Local ", "distribution=PreferClose ", "clusterip=None ", "type=ExternalName ") + own()
	case 4, 5, 6:
		return m + ": endpoints " + d.name() + " " + own()
	case 7, 8:
		return m + ": export " + d.name()
	case 9:
		return m + ": export " + d.name() + d.pick(" label=team:blue", " label=team:red", " annotation=example.org/note:x")
	case 10:
		return m + ": delete serviceexport " + d.name()
	default:
		return m + ": delete service " + d.name()
	}
}

func (d *dice) own(member string) (all []string) {
	number := strings.TrimPrefix(member, "member")
	for n := 1; n < 5; n++ {
		if d.one(2) {
			all = append(all, fmt.Sprintf("10.9.%s.%d%s", number, n, d.pick("", "", "", "", "", "=unready", "=terminating")))
		}
	}
	return all
}

// extensions are what people use beyond the standard.
func (d *dice) extensions() string {
	const of = " clusterset-dns.io/"
	prefer := "prefer-clusters=" + d.pick("local,any", "local,any", "cluster="+d.id()+",any", "cluster="+d.id()+",any", "cluster="+d.id(), "nearest")
	switch d.IntN(6) {
	case 0:
		return d.member() + "annotate serviceexport " + d.name() + of + d.pick(prefer, prefer, "prefer-clusters-", "return-after=1m", "min-ready=2")
	case 1:
		return d.member() + "annotate serviceimport " + d.name() + of + d.pick(prefer, "prefer-clusters-")
	case 2:
		return d.member() + "annotate serviceexport " + d.name() + of + d.pick("to-clusters="+d.id(), "to-clusters="+d.id()+","+d.id(), "to-clusters-", "to-clusters-")
	case 3:
		return d.member() + "annotate serviceexport " + d.name() + of + d.pick("native-name=true", "native-name=true", "native-name=false")
	case 4:
		return d.member() + d.pick("label namespace shop"+of+"export=all", "label namespace shop"+of+"export-", "annotate service "+d.name()+of+"export=false",
			"annotate service "+d.name()+of+"export-")
	default:
		return d.member() + "annotate secret multicluster-system/" + d.id() + of + d.pick("max-services=1", "max-endpoints=3", "namespaces=shop", "max-services-", "max-endpoints-", "namespaces-")
	}
}

// slips is what people and tools do by mistake to objects of ours.
//
// Of a Service with several slices, peers do not know how many there are, so they lose endpoints when some are deleted in the exporting cluster: only
// bar has several, and nobody deletes those.
func (d *dice) slips() string {
	n := d.pick("foo", "depot/foo")
	derived := strings.Replace("/"+n, "/", "/derived-", 1)[1:]
	if in, of, given := strings.Cut(n, "/"); given {
		derived = in + "/derived-" + of
	}
	return d.member() + d.pick(
		"delete serviceimport "+n, "delete serviceimport "+n+" cascade=orphan", "delete serviceimport "+n+" cascade=foreground",
		"delete service "+derived, "delete service "+derived+" cascade=orphan", "delete service "+derived+" cascade=foreground",
		"label service "+derived+" app.kubernetes.io/managed-by=Helm", "label serviceimport "+n+" argocd.argoproj.io/instance=x", "annotate service "+derived+" argocd.argoproj.io/tracking-id=x",
		"delete endpointslice "+n+".member1.*", "delete endpointslice "+n+".member2.*", "delete serviceimport bar",
		"delete service derived-bar", "delete namespace depot", "create namespace depot", "create namespace depot",
		"delete lease multicluster-system/multicluster-member",
	)
}

// edits change fields of ours.
func (d *dice) edits() string {
	n := d.name()
	derived := "derived-" + n
	if in, of, given := strings.Cut(n, "/"); given {
		derived = in + "/derived-" + of
	}
	m, other := d.id(), d.id()
	if other == m { // what others read there would be what somebody has written there
		other = "nobody"
	}
	slice := "endpointslice " + n + "." + other + ".*"
	return m + ": " + d.pick(
		`patch serviceimport `+n+` {"spec": {"ports": [{"port": 1, "protocol": "TCP"}]}}`, `patch serviceimport `+n+` {"spec": {"ips": null}}`,
		`patch serviceimport `+n+` {"spec": {"type": "Headless", "ips": null}}`, `patch serviceimport `+n+` {"spec": {"sessionAffinity": "ClientIP"}}`,
		`patch serviceimport/status `+n+` {"status": {"conditions": null}}`, `patch serviceimport/status `+n+` {"status": {"clusters": null}}`,
		`patch service `+derived+` {"spec": {"ports": [{"name": "other", "port": 77}]}}`, `patch service `+derived+` {"spec": {"sessionAffinity": "ClientIP"}}`,
		`patch service `+derived+` {"spec": {"selector": {"app": "other"}}}`,
		`label `+slice+` multicluster.kubernetes.io/source-cluster=member9`, `label `+slice+` endpointslice.kubernetes.io/managed-by=me`,
		`patch `+slice+` {"endpoints": [{"addresses": ["10.6.6.6"]}]}`, `patch `+slice+` {"metadata": {"ownerReferences": null}}`,
		`patch serviceexport/status `+n+` {"status": {"conditions": null}}`,
	)
}

// others are other controllers, with objects of the names that ours have.
func (d *dice) others() string {
	n := d.pick("foo", "bar")
	return d.member() + d.pick(
		`create serviceimport `+n+` {"spec": {"type": "ClusterSetIP", "ports": [{"name": "theirs", "port": 7, "protocol": "TCP"}]}}`,
		`create serviceimport `+n+` {"spec": {"type": "Headless", "ports": [{"name": "theirs", "port": 7, "protocol": "TCP"}]}}`,
		`create service derived-`+n+` {"spec": {"ports": [{"port": 7}]}}`, `delete serviceimport `+n, `delete service derived-`+n,
		`create endpointslice theirs-`+n+` {"addressType": "IPv4", "metadata": {"labels": {"multicluster.kubernetes.io/service-name": "`+n+`", "endpointslice.kubernetes.io/managed-by": "cilium"}}, "endpoints": [{"addresses": ["10.8.8.8"]}]}`,
		`delete endpointslice theirs-`+n,
	)
}

// machines end and start.
func (d *dice) machines() string {
	if d.replicas && d.one(3) {
		return d.member() + "replica"
	}
	return d.member() + d.pick("restart", "crash", "crash before write "+d.pick("1", "2", "3", "5", "8"), "crash after write "+d.pick("1", "2", "3", "5", "8"), "start", "start", "start",
		"lose "+d.pick("1", "3"), "install other", "clock "+d.pick("+1m", "-1m", "0s"), "proxies", "pods down", "pods up", "backup", "restore")
}

// networks fail, and come back.
func (d *dice) networks() string {
	switch d.IntN(8) {
	case 0:
		return "cut " + d.id()
	case 1, 2:
		return "connect"
	case 3:
		return d.member() + "api " + d.pick("down", "silent", "slow")
	case 4:
		return d.member() + "expire"
	default:
		return d.member() + "api up"
	}
}

// refusals are what API servers, webhooks and quotas answer.
func (d *dice) refusals() string {
	if d.one(3) {
		return d.member() + "answer as usual"
	}
	if d.one(8) { // policies that label what anybody writes
		return d.member() + d.pick(`mutate services {"metadata": {"labels": {"policy.example.org/checked": "true"}}}`,
			`mutate endpointslices {"metadata": {"labels": {"policy.example.org/checked": "true"}}}`,
			`mutate serviceimports {"metadata": {"labels": {"policy.example.org/checked": "true"}, "annotations": {"policy.example.org/by": "x"}}}`, "mutate nothing")
	}
	if d.one(6) { // nothing refuses for ever that an object has changed
		return d.member() + "answer 409 " + d.pick("services", "endpointslices", "serviceimports") + d.pick(" 1", " 3")
	}
	return d.member() + "answer " + d.pick("401", "403", "429", "500", "503", "504") + " " + d.pick("all", "services", "endpointslices", "serviceimports", "serviceexports", "leases", "secrets") +
		d.pick(" 1", " 1", " 3", "", " reads")
}

// shrink leaves out clusters and steps for as long as the story fails in the same way, and returns what is left. fails plays a story.
func shrink(steps []string, fails func([]string) bool) []string {
	for count := 2; count < clustersIn(steps[0]); count++ {
		if fewer := withClusters(steps, count); fails(fewer) {
			steps = fewer
			break
		}
	}
	for size := len(steps) / 2; size > 0; {
		removed := false
		for at := 1; at+size < len(steps); { // the first one makes the clusters, and the last one judges
			without := slices.Delete(slices.Clone(steps), at, at+size)
			if fails(without) {
				steps, removed = without, true
			} else {
				at += size
			}
		}
		if !removed || size > 1 {
			size /= 2
		}
	}
	return steps
}

// clustersIn is how many clusters the first step makes.
func clustersIn(first string) int {
	count, _ := strconv.Atoi(strings.Fields(first + " 0")[1]) // 0 if there are none
	return count
}

// withClusters is a story with fewer clusters, without the steps about others.
func withClusters(steps []string, count int) []string {
	words := strings.Fields(steps[0])
	words[1] = strconv.Itoa(count)
	fewer := []string{strings.Join(words, " ")}
	for _, step := range steps[1:] {
		others := false
		for n := count + 1; n <= clustersIn(steps[0]); n++ {
			others = others || strings.Contains(step, fmt.Sprint("member", n))
		}
		if !others {
			fewer = append(fewer, step)
		}
	}
	return fewer
}
