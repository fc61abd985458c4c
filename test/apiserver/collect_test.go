package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/kube"
)

// controlled is a cluster with the garbage collector and the namespace controller of Kubernetes.
var controlled = kube.Shared{Prepare: func(ctx context.Context, c *kube.Cluster) error {
	return errors.Join(c.InstallCRDs(ctx, kube.BothVersions), c.StartControllers(ctx))
}}

// owned are the kinds of objects: the first letter of a name is its kind.
var owned = map[string]func() client.Object{
	"v": func() client.Object {
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	},
	"s": func() client.Object { return new(corev1.Secret) },
	"l": func() client.Object { return new(coordinationv1.Lease) },
	"e": func() client.Object {
		return &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{}}
	},
	"x": func() client.Object { return new(mcsv1beta1.ServiceExport) },
	"n": func() client.Object { return new(corev1.Namespace) },
}

// plot is where a history takes place: one namespace in a cluster, and others whose names begin with its name. So many can at the same time.
type plot struct {
	*side
	name   string
	more   []string // the names of more namespaces
	server *Server  // nil for the real one
}

// object is one of the names of a step, such as "v1", or "n1/v1" in the namespace "n1". "n" is the namespace of the plot.
func (p *plot) object(name string) client.Object {
	in, of, other := strings.Cut(name, "/")
	if !other {
		in, of = "", name
	}
	o := owned[of[:1]]()
	if of == "n" {
		o.SetName(p.name)
		return o
	}
	if of[0] == 'n' { // a namespace
		o.SetName(p.name + "-" + of)
		return o
	}
	o.SetName(of)
	o.SetNamespace(p.name)
	if in != "" {
		o.SetNamespace(p.name + "-" + in)
	}
	return o
}

// owner is the reference that a word means: "v1" does not block the deletion of its owner, and "v1!" does. After v1, "~uid" has the UID of none,
// and "~name" the name of none. What is gone is as it was last.
func (p *plot) owner(word string) metav1.OwnerReference {
	word, blocks := strings.CutSuffix(word, "!")
	name, wrong, _ := strings.Cut(word, "~")
	o := p.object(name)
	gvk, _, err := scheme.ObjectKinds(o)
	must(err) // the types are compiled in
	r := metav1.OwnerReference{APIVersion: gvk[0].GroupVersion().String(), Kind: gvk[0].Kind, Name: o.GetName(), UID: p.read(o).GetUID()}
	if blocks {
		r.BlockOwnerDeletion = &blocks
	}
	switch {
	case wrong == "uid" || r.UID == "":
		r.UID = "00000000-0000-4000-8000-000000000001"
	case wrong == "name":
		r.Name += "-never"
	case wrong == "kind":
		r.Kind = "Unheard"
	}
	return r
}

// step does what a line says, and answers as the API server does:
//
//	create s1 v1! v2     with these owners
//	own s1 v1            has these owners from now on
//	delete v1 Foreground
//	keep s1, free s1     with a finalizer, and without any
func (p *plot) step(line string) string {
	words := strings.Fields(line)
	o := p.object(words[1])
	refs := []metav1.OwnerReference{}
	if words[0] == "create" || words[0] == "own" {
		for _, word := range words[2:] {
			refs = append(refs, p.owner(word))
		}
	}
	switch words[0] {
	case "create":
		o.SetOwnerReferences(refs)
		return p.answer(create(o))
	case "own":
		return p.answer(p.change(o, func(o client.Object) { o.SetOwnerReferences(refs) }))
	case "keep":
		return p.answer(p.change(o, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), "example.com/kept")) }))
	case "free":
		return p.answer(p.change(o, func(o client.Object) { without(o, "example.com/kept") }))
	case "delete":
		var options []client.DeleteOption
		for _, policy := range words[2:] {
			options = append(options, client.PropagationPolicy(policy))
		}
		return p.answer(remove(o, options...))
	}
	panic(line)
}

// change is a change by one who tries again after a conflict: with the controllers, whose writes come at any time.
func (p *plot) change(o client.Object, edit func(client.Object)) do {
	return func(s *side) (any, error) {
		for {
			if err := s.Get(s.ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return o, err
			}
			edit(o)
			if err := s.Update(s.ctx, o); !apierrors.IsConflict(err) {
				return unconditional(o), err
			}
		}
	}
}

// unconditional is an object without the conditions of a namespace that is being deleted, which tell what is still in it: only the real controller sets
// them.
func unconditional(o client.Object) client.Object {
	if n, is := o.(*corev1.Namespace); is {
		n.Status.Conditions = nil
		n.ManagedFields = slices.DeleteFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource == "status" })
	}
	return o
}

// objects are all that are in the namespaces of the plot, and these.
func (p *plot) objects() (string, error) {
	var text strings.Builder
	for _, name := range append([]string{p.name}, p.more...) {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		err := p.Get(p.ctx, client.ObjectKeyFromObject(n), n)
		if err == nil {
			fmt.Fprintln(&text, comparable(unconditional(n)))
		} else if !apierrors.IsNotFound(err) {
			return "", err
		}
		for _, list := range []client.ObjectList{new(corev1.ServiceList), new(corev1.SecretList), new(coordinationv1.LeaseList), new(discoveryv1.EndpointSliceList), new(mcsv1beta1.ServiceExportList)} {
			if err := p.List(p.ctx, list, client.InNamespace(name)); err != nil {
				return "", err
			}
			for _, o := range items(list) {
				fmt.Fprintf(&text, "%T %s\n", o, comparable(o))
			}
		}
	}
	return byController.ReplaceAllString(text.String(), `"manager": "kube-controller-manager"`), nil
}

var byController = regexp.MustCompile(`"manager": "(controllers|kube-controller-manager/\w+)"`)

// ownership is a history of objects that own each other in two clusters: one with real controllers, and one in memory.
type ownership struct {
	real, memory *plot
	told         strings.Builder
}

var anotherNamespace = regexp.MustCompile(`\bn\d`)

// newOwnership begins in a new namespace.
func newOwnership(t *testing.T, name string, steps []string) *ownership {
	var more []string
	for _, n := range anotherNamespace.FindAllString(strings.Join(steps, "\n"), -1) {
		if n = name + "-" + n; !slices.Contains(more, n) {
			more = append(more, n)
		}
	}
	server := New(Options{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
	h := &ownership{
		real:   &plot{side: newSide(t, controlled.Cluster(t).Config), name: name, more: more},
		memory: &plot{side: newSide(t, &rest.Config{Host: "http://memory", Transport: RoundTripper{server}, QPS: -1}), name: name, more: more, server: server},
	}
	for _, p := range []*plot{h.real, h.memory} {
		if err := p.Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// play does the steps, each when the controllers have done what the steps before are about, and compares the answers and the objects.
func (h *ownership) play(steps []string) error {
	for _, line := range steps {
		if strings.HasSuffix(line, "Foreground") || strings.HasSuffix(line, "Orphan") { // the collector has to know what is owned
			if err := h.real.seen(); err != nil {
				return err
			}
		}
		_, _ = fmt.Fprintln(&h.told, line)
		if real, memory := h.real.step(line), h.memory.step(line); real != memory {
			return fmt.Errorf("after\n%s(-kube-apiserver +in memory):\n%s", h.told.String(), cmp.Diff(real, memory))
		}
		if !h.memory.server.Collect() {
			continue
		}
		for h.memory.server.Collect() { // until there is nothing to do
		}
		if err := h.same(3 * time.Minute); err != nil {
			return err
		}
	}
	// The real ones could do more.
	return errors.Join(h.real.seen(), h.same(0))
}

// same wants both clusters to have the same objects, before long.
func (h *ownership) same(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(h.real.ctx, patience)
	defer cancel()
	want, err := h.memory.objects()
	if err != nil {
		return err
	}
	return kube.Poll(ctx, 10*time.Millisecond, func(context.Context) error {
		is, err := h.real.objects()
		if err == nil && is != want {
			err = fmt.Errorf("after\n%sobjects (-with real controllers +in memory):\n%s", h.told.String(), cmp.Diff(is, want))
		}
		return err
	})
}

// seen waits until the garbage collector has seen all that was done: it makes an object of each kind in a namespace beside the plot, with one that it owns,
// deletes the owners, and waits until all have gone. The collector sees the changes of a kind in their order.
func (p *plot) seen() error {
	beside := &plot{side: &side{WithWatch: p.WithWatch, ctx: p.ctx, last: map[string]client.Object{}}, name: "beside-" + p.name}
	if err := client.IgnoreAlreadyExists(p.Create(p.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: beside.name}})); err != nil {
		return err
	}
	kinds := []string{"v", "s", "l", "e", "x"}
	for _, k := range kinds {
		for _, line := range []string{"create " + k + "1", "create " + k + "2 " + k + "1", "delete " + k + "1"} {
			beside.step(line)
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, 3*time.Minute)
	defer cancel()
	return kube.Poll(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		for _, k := range kinds {
			o := beside.object(k + "2")
			if err := p.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the garbage collector has left %T %s alone: %w", o, o.GetName(), err)
			}
		}
		return nil
	})
}

// compare plays histories, many at the same time: most of the time, they wait.
func compare(t *testing.T, histories map[string][]string) {
	var all errgroup.Group
	all.SetLimit(32)
	for name, steps := range histories {
		h := newOwnership(t, name, steps)
		all.Go(func() error {
			if err := h.play(steps); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are said already
}

// TestLikeControllers compares Collect with the garbage collector and the namespace controller of Kubernetes, in scenarios of their own. Not compared:
// owners of kinds that a Server does not have, and what becomes of new dependents of an owner that is being deleted already. The real collector does not
// look at these before something else happens.
func TestLikeControllers(t *testing.T) {
	compare(t, map[string][]string{
		"background":            {"create v1", "create s1 v1", "create e1 v1!", "create x1 s1", "delete v1 Background"},
		"by-default":            {"create x1", "create s1 x1", "create e1 s1!", "delete x1"},
		"foreground":            {"create v1", "create s1 v1", "create e1 v1!", "create x1 e1!", "create l1 x1", "delete v1 Foreground"},
		"foreground-kept":       {"create v1", "create s1 v1", "create e1 v1!", "keep e1", "delete v1 Foreground", "free e1"},
		"foreground-unblocked":  {"create v1", "create e1 v1", "keep e1", "delete v1 Foreground", "free e1"},
		"foreground-disowned":   {"create v1", "create e1 v1!", "keep e1", "delete v1 Foreground", "own e1", "free e1"},
		"foreground-deep":       {"create v1", "create e1 v1!", "create s1 e1!", "keep s1", "delete v1 Foreground", "free s1"},
		"foreground-deep-free":  {"create v1", "create e1 v1!", "create s1 e1", "keep s1", "delete v1 Foreground", "free s1"},
		"foreground-kept-self":  {"create v1", "create s1 v1!", "keep v1", "delete v1 Foreground", "free v1"},
		"foreground-circle":     {"create v1", "create s1 v1!", "create x1 s1!", "own v1 x1!", "delete v1 Foreground"},
		"foreground-then-not":   {"create v1", "create s1 v1!", "keep s1", "delete v1 Foreground", "delete v1 Background", "free s1"},
		"orphan":                {"create v1", "create s1 v1", "create e1 v1!", "create x1 s1", "delete v1 Orphan"},
		"orphan-kept":           {"create v1", "create s1 v1", "keep v1", "delete v1 Orphan", "free v1"},
		"orphan-of-two":         {"create v1", "create v2", "create s1 v1 v2", "delete v1 Orphan", "delete v2"},
		"circle":                {"create v1", "create s1 v1", "own v1 s1", "delete v1"},
		"two-owners":            {"create v1", "create x2", "create s1 v1 x2!", "delete v1", "delete x2"},
		"two-owners-waiting":    {"create v1", "create v2", "create s1 v1! v2!", "keep s1", "delete v1 Foreground", "delete v2 Foreground", "free s1"},
		"two-owners-one-never":  {"create v1", "create s1 v1 v2"},
		"never":                 {"create s1 v1", "create e1 v1!", "create x1 n1"},
		"never-and-kept":        {"create s1", "keep s1", "own s1 v1", "free s1"},
		"owned-later":           {"create v1", "create s1", "own s1 v1", "delete v1"},
		"disowned":              {"create v1", "create s1 v1", "own s1", "delete v1"},
		"wrong-uid":             {"create v1", "create s1 v1~uid", "create s2 v1 v1~uid"},
		"wrong-name":            {"create v1", "create s1 v1~name", "create v2", "create s2 v1~name v2"},
		"unheard-kind":          {"create v1", "create s1 v1~kind", "create s2 v1~kind v2"},
		"recreated":             {"create v1", "create s1 v1", "keep v1", "delete v1", "free v1", "create v1", "create s1 v1", "delete v1"},
		"recreated-at-once":     {"create v1", "delete v1", "create v2", "create s1 v1 v2", "create v1", "create s2 v1", "own s1 v1"},
		"other-namespace":       {"create n1", "create n1/v7", "create s1 n1/v7", "create v1", "create e1 v1 n1/v7"},
		"cluster-owner":         {"create n1", "create v1 n1", "create s1 n1!", "create x1 n1 v1", "delete n1"},
		"cluster-foreground":    {"create n1", "create n1/v1", "create s1 n1!", "keep s1", "delete n1 Foreground", "free s1"},
		"cluster-owned":         {"create n1", "create n2 n1", "create n2/s1", "delete n1"},
		"cluster-of-namespaced": {"create v1", "create n1 v1", "create n2", "create n3 v1 n2", "delete v1", "delete n2"},
		"namespace":             {"create v1", "create s1 v1", "create e1", "create x1", "create l1", "delete n", "create s3"},
		"namespace-kept":        {"create v1", "create s1", "keep s1", "create x1", "keep x1", "delete n", "create s3", "own x1 v1", "free x1", "free s1"},
		"namespace-owner":       {"create v1", "create s1 v1!", "keep s1", "delete v1 Foreground", "delete n", "free s1"},
		"namespace-finalizer":   {"create n1", "keep n1", "create n1/s1", "delete n1", "free n1"},
		"namespace-again":       {"create n1", "create n1/s1", "delete n1", "create n1", "create n1/s1"},
	})
}

// TestRandomOwners compares random histories of objects that own each other.
func TestRandomOwners(t *testing.T) {
	all := map[string][]string{}
	for seed := *firstSeed; seed < *firstSeed+uint64(*histories); seed++ {
		all[fmt.Sprint("seed-", seed)] = randomOwners(rand.New(rand.NewPCG(seed, 1)))
	}
	compare(t, all)
}

// randomOwners are 12 steps, with few names. In some of them, the namespace is deleted in the end: its controller asks for a hundred lists then.
func randomOwners(r *rand.Rand) (steps []string) {
	names := []string{"v1", "v2", "s1", "e1", "x1"}
	owners := func() (words []string) {
		for range r.IntN(3) {
			words = append(words, choose(r, names...)+choose(r, "", "", "!", "!", "~uid", "~name"))
		}
		return words
	}
	for range 12 {
		name := choose(r, names...)
		step := []string{choose(r, "create", "create", "create", "own", "keep", "free", "delete", "delete"), name}
		switch step[0] {
		case "create", "own":
			step = append(step, owners()...)
		case "delete":
			step = append(step, choose(r, "Background", "Foreground", "Foreground", "Orphan"))
		}
		steps = append(steps, strings.Join(step, " "))
	}
	if r.IntN(16) == 0 {
		steps = append(steps, "delete n")
		for _, name := range names {
			steps = append(steps, "free "+name)
		}
	}
	return steps
}
