package rules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/controller/reconcile"
	"github.com/clusterset-dns/multicluster/test/world"
	"github.com/clusterset-dns/multicluster/test/world/faultproxy"
)

const (
	historiesByDefault = 4
	namesAtFirst       = 5 // are exported
	stepsOfHistory     = 60
	prefix             = "history-" // of namespaces
)

// TestRandomHistories: whatever happens to three clusters, in the end each of them holds what the merge of the true state says, and
// nothing else. What others made is as it was, and an import's address never changed (C24). Then the controllers start once more and
// write nothing.
//
// Each history follows from its seed, but for the moments at which the controllers come to see what happens:
//
//	HISTORY_SEED=1234 go test -race -run TestRandomHistories ./test/rules     that one again
//	HISTORIES=50 go test -race -timeout 60m -run TestRandomHistories ./test/rules     many
func TestRandomHistories(t *testing.T) {
	set := startHistories(t)
	for run, seed := range historySeeds(t) {
		t.Logf("history %d: seed %d", run, seed)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { newHistory(t, set, run, seed).run() })
	}
}

func historySeeds(t *testing.T) []uint64 {
	t.Helper()
	number := func(name string) uint64 {
		n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
		if err != nil {
			t.Fatal(name, err)
		}
		return n
	}
	if os.Getenv("HISTORY_SEED") != "" {
		return []uint64{number("HISTORY_SEED")}
	}
	runs := uint64(historiesByDefault)
	if os.Getenv("HISTORIES") != "" {
		runs = number("HISTORIES")
	}
	var seeds []uint64
	for range runs {
		seeds = append(seeds, uint64(rand.Uint32()))
	}
	return seeds
}

// histories are three clusters. Each reads the others through a proxy of its own.
type histories struct {
	*world.World
	links  map[linkOf]*faultproxy.API
	joined map[linkOf][]byte // the kubeconfigs
	ledger recorder
}

// linkOf is a cluster and a peer that it reads, by their places.
type linkOf struct{ reader, peer int }

func startHistories(t *testing.T) *histories {
	t.Helper()
	w := world.Three(t)
	all := &histories{World: w, links: map[linkOf]*faultproxy.API{}, joined: map[linkOf][]byte{}}
	t.Cleanup(func() {
		for _, api := range all.links {
			w.Check(api.Close())
		}
	})
	w.Exclusive()
	stopKubernetes()
	for i, c := range all.Clusters {
		all.ledger.follow(w, c.ID)
		for j, peer := range all.Clusters {
			if i == j {
				continue
			}
			api, err := faultproxy.Before(peer.Config)
			w.Must(err)
			all.links[linkOf{i, j}] = api
			all.joined[linkOf{i, j}], err = api.Kubeconfig(peer.Reader)
			w.Must(err)
		}
	}
	return all
}

// history is one of them.
type history struct {
	*world.World
	*histories
	dice
	seed       uint64
	timeout    time.Duration // of peers; 0 for forever
	namespaces []string      // in the last one no step does anything
	weights    []int
	steps      []string
	disturbed  map[linkOf]func() error // ends what disturbs a link
	ended      map[int]bool            // whose controller does not run
	theirs     map[client.Object]int   // what others made, as it was, and in which cluster
	left       map[linkOf]bool         // that left once
	steady     map[linkOf]picture
	addresses  *addressBook
}

func newHistory(t *testing.T, all *histories, run int, seed uint64) *history {
	h := &history{World: all.For(t), histories: all, seed: seed, dice: dice{rand.New(rand.NewPCG(seed, 0))}, ended: map[int]bool{}, disturbed: map[linkOf]func() error{},
		left: map[linkOf]bool{}, theirs: map[client.Object]int{}}
	for _, suffix := range []string{"a", "b", "steady"} {
		h.namespaces = append(h.namespaces, fmt.Sprintf("%s%d-%s", prefix, run, suffix))
	}
	h.weigh()
	if h.one(4) { // sometimes an outage lasts too long
		h.timeout = 3 * time.Second
	}
	return h
}

func (h *history) run() {
	defer h.end()
	h.begin()
	for n := range uint64(stepsOfHistory) {
		// With dice of its own: what a step finds, which is not the same each time, does not change the next ones.
		h.dice = dice{rand.New(rand.NewPCG(h.seed, n+1))}
		if n < namesAtFirst {
			h.populate()
		} else {
			h.step()
		}
	}
	h.settle()
	h.idle()
}

// begin joins all to all anew, as if no history had been before.
func (h *history) begin() {
	for link := range h.links {
		lease := leaseOf(h.Clusters[link.peer].ID)
		h.Must(client.IgnoreNotFound(h.Clusters[link.reader].Admin.Delete(h.Context(), lease)))
		h.Must(h.Clusters[link.reader].Leave(h.Context(), h.Clusters[link.peer].ID))
		h.Must(h.join(link))
	}
	for i, c := range h.Clusters {
		for n, namespace := range h.namespaces {
			if n == 1 && i > 0 { // later, by a step
				continue
			}
			h.Must(c.Admin.Create(h.Context(), namespaceOf(namespace)))
		}
		h.Must(h.runController(i))
	}
	h.addresses = readAddresses(h.World)
	s := h.Called(h.namespaces[2])
	for i, c := range h.Clusters {
		s.Export(c.ID, world.Service("from-"+c.ID), fmt.Sprintf("10.9.%d.1", i))
	}
	for i, c := range h.Clusters {
		s.Until("exported", func() error { return s.Healthy(c.ID, "from-"+c.ID) })
		for _, in := range s.IDs() {
			s.Until("imported", func() error { return s.Imported(in, "from-"+c.ID, []string{c.ID}, fmt.Sprintf("10.9.%d.1", i)) })
		}
	}
	h.steady = h.undisturbed()
}

// undisturbed contains the versions of the objects that no step touches, by their cluster and the
// cluster that they come from: outages and restarts must not change them.
func (h *history) undisturbed() map[linkOf]picture {
	all := map[linkOf]picture{}
	for i, c := range h.Clusters {
		one, err := see(h.Context(), c, h.namespaces[2:])
		h.Must(err)
		for j, from := range h.Clusters {
			p := picture{}
			for _, obj := range one.objects() {
				if strings.Contains(obj.GetName(), "from-"+from.ID) {
					p[described(c, obj)] = obj.GetResourceVersion()
				}
			}
			all[linkOf{i, j}] = p
		}
	}
	return all
}

func described(c *world.Cluster, obj client.Object) string {
	return fmt.Sprintf("%s: %T %s", c.ID, obj, client.ObjectKeyFromObject(obj))
}

// end leaves nothing running, and nothing that the next history would meet.
func (h *history) end() {
	if h.Failed() {
		h.Logf("peers time out after %v (0 is never); the steps of this history:\n%s", h.timeout, strings.Join(h.steps, "\n"))
	}
	h.addresses.close()
	for _, resume := range h.disturbed {
		h.Check(resume())
	}
	for _, c := range h.Clusters {
		h.Check(c.End())
		for _, namespace := range h.namespaces {
			h.Check(client.IgnoreNotFound(c.Admin.Delete(h.Context(), namespaceOf(namespace))))
		}
	}
}

func (h *history) join(link linkOf) error {
	return h.Clusters[link.reader].Join(h.Context(), h.Clusters[link.peer].ID, h.joined[link])
}

func (h *history) runController(i int) error {
	delete(h.ended, i)
	return h.Clusters[i].Run(h.Late(), func(o *reconcile.Options) { o.PeerTimeout = h.timeout })
}

// settle ends all that disturbs, and waits until each cluster is as it should be.
func (h *history) settle() {
	for link, resume := range h.disturbed {
		h.Must(resume())
		delete(h.disturbed, link)
	}
	for i := range h.ended {
		h.Must(h.runController(i))
	}
	h.pardon()
	h.Until("as it should be, after all", h.check)
	// Once all is quiet, nothing but the namespaces themselves says that they have come (C21).
	for i := range h.Clusters {
		_, err := h.createNamespace(place{in: i})
		h.Must(err)
	}
	h.Until("as it should be, with the namespaces that were missing", h.check)
	h.Check(h.addresses.fault())
	for link, is := range h.undisturbed() {
		if own := link.reader == link.peer; !own && (h.timeout > 0 || h.left[link]) {
			continue
		}
		if diff := differences(h.steady[link], is); diff != "" {
			h.Errorf("objects that no step touched have changed:\n%s", diff)
		}
	}
}

// pardon has those peers leave and join again that came and went so often that they would have to stay for long before they count.
func (h *history) pardon() {
	for link := range h.links {
		if h.timeout == 0 {
			return
		}
		reader, peer := h.Clusters[link.reader], h.Clusters[link.peer].ID
		lease := leaseOf(peer)
		if err := reader.Admin.Get(h.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			h.Must(client.IgnoreNotFound(err))
			continue
		}
		if n := lease.Spec.LeaseTransitions; n == nil || *n == 0 {
			continue
		}
		h.Must(reader.Leave(h.Context(), peer))
		h.Until("the Lease of one that left goes", func() error { return h.System().Gone(reader.ID, lease, peer) })
		h.Must(h.join(link))
	}
}

// check compares each cluster with the truth.
func (h *history) check() error {
	var seen []*seenCluster
	for _, c := range h.Clusters {
		one, err := see(h.Context(), c, h.namespaces)
		if err != nil {
			return err
		}
		seen = append(seen, one)
	}
	var faults []error
	for i, one := range seen {
		if faults = append(faults, compare(one, oracle{seen}.of(one))); errors.Join(faults...) != nil {
			return errors.Join(faults...)
		}
		faults = append(faults, h.untouched(i))
	}
	return errors.Join(faults...)
}

// idle starts all controllers again: they find everything as it should be, and write nothing.
func (h *history) idle() {
	for i, c := range h.Clusters {
		h.Must(c.End())
		h.ended[i] = true
	}
	before := h.versions()
	h.ledger.take()
	for i := range h.Clusters {
		h.Must(h.runController(i))
	}
	// What is exported now comes after all that there was.
	const late = "late"
	s := h.Called("default")
	ids, addresses := map[string][]string{}, map[string][]string{}
	for i, home := range h.Clusters {
		ids[home.ID] = h.readBy(i)
		for j, c := range h.Clusters {
			if slices.Contains(ids[home.ID], c.ID) {
				addresses[home.ID] = append(addresses[home.ID], fmt.Sprintf("10.9.%d.9", j))
			}
		}
		s.Export(home.ID, world.Service(late), fmt.Sprintf("10.9.%d.9", i))
	}
	for _, id := range s.IDs() {
		s.Until("imported", func() error { return s.Imported(id, late, ids[id], addresses[id]...) })
	}
	h.quiet()
	// Former histories are still on their way out.
	for _, write := range h.ledger.take() {
		_, path, _ := strings.Cut(write.request, "/namespaces/")
		in, _, _ := strings.Cut(path, "/")
		if in != s.Name && (!strings.HasPrefix(in, prefix) || slices.Contains(h.namespaces, in)) {
			h.Errorf("a restart in %s should write nothing: %s", write.cluster, write.request)
		}
	}
	if diff := differences(before, h.versions()); diff != "" {
		h.Errorf("a restart changed something:\n%s", diff)
	}
	for _, id := range s.IDs() {
		s.Delete(id, world.Export(late), world.Service(late), world.Endpoints(world.Service(late), ""))
	}
	s.Nowhere(late)
}

// readBy are the ids of a cluster and its peers.
func (h *history) readBy(i int) []string {
	one, err := see(h.Context(), h.Clusters[i], nil)
	h.Must(err)
	ids := append(one.peers, h.Clusters[i].ID)
	slices.Sort(ids)
	return ids
}

// quiet waits until no controller has reconciled anything for a while.
func (h *history) quiet() {
	const calm = 20
	last, same := -1.0, 0
	h.Until("nothing is left to reconcile", func() error {
		now, err := reconciled()
		if err != nil {
			return err
		}
		if same++; now != last {
			last, same = now, 0
		}
		if same < calm {
			return fmt.Errorf("%v reconciles", now)
		}
		return nil
	})
}

// versions returns the resourceVersions of all objects.
func (h *history) versions() picture {
	p := picture{}
	for _, c := range h.Clusters {
		one, err := see(h.Context(), c, h.namespaces)
		h.Must(err)
		for _, obj := range one.objects() {
			p[described(c, obj)] = obj.GetResourceVersion()
		}
	}
	return p
}

// addressBook watches the imports of all clusters: the first address that one has is its address for life (C24). A second one may come
// and go with its family. A headless one has none at any time (C25).
type addressBook struct {
	watches []watch.Interface
	running sync.WaitGroup

	mu     sync.Mutex
	first  map[types.UID]string
	faults []string
}

func readAddresses(w *world.World) *addressBook {
	w.Helper()
	b := &addressBook{first: map[types.UID]string{}}
	for _, c := range w.Clusters {
		events, err := w.As(c.Config).Watch(w.Context(), new(mcsv1beta1.ServiceImportList))
		w.Must(err)
		b.watches = append(b.watches, events)
		b.running.Go(func() {
			for event := range events.ResultChan() {
				b.note(c.ID, event)
			}
		})
	}
	return b
}

func (b *addressBook) note(cluster string, event watch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	imp, ok := event.Object.(*mcsv1beta1.ServiceImport)
	if !ok {
		b.faults = append(b.faults, fmt.Sprintf("the watch of %s ended: %v", cluster, event))
		return
	}
	if len(imp.Spec.IPs) == 0 {
		return
	}
	if imp.Spec.Type == mcsv1beta1.Headless {
		b.faults = append(b.faults, fmt.Sprintf("C25: headless import %s/%s of %s has ips %v", imp.Namespace, imp.Name, cluster, imp.Spec.IPs))
	}
	first, known := b.first[imp.UID]
	if !known {
		b.first[imp.UID] = imp.Spec.IPs[0]
	} else if first != imp.Spec.IPs[0] {
		b.faults = append(b.faults, fmt.Sprintf("C24: import %s/%s of %s had the address %s and has %v", imp.Namespace, imp.Name, cluster, first, imp.Spec.IPs))
	}
}

func (b *addressBook) fault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(b.faults, "\n"))
}

// close ends the watches; a nil book has none.
func (b *addressBook) close() {
	if b == nil {
		return
	}
	for _, events := range b.watches {
		events.Stop()
	}
	b.running.Wait()
}

// reconciled is how often all controllers of this process have reconciled, or have begun to.
func reconciled() (float64, error) {
	families, err := metrics.Registry.Gather()
	total := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "controller_runtime_reconcile_total":
				total += m.GetCounter().GetValue()
			case "workqueue_adds_total":
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total, err
}
