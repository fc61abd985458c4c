package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/test/world"
)

// dice decide.
type dice struct{ *rand.Rand }

// one is true once in n times.
func (d dice) one(n int) bool { return d.IntN(n) == 0 }

func oneOf[T any](d dice, all ...T) T { return all[d.IntN(len(all))] }

// place is a name in a cluster. There are few, so that much happens to each.
type place struct {
	in int
	client.ObjectKey
}

func (h *history) place() place {
	a, b := h.namespaces[0], h.namespaces[1]
	return place{h.IntN(len(h.set)), client.ObjectKey{Namespace: oneOf(h.dice, a, a, b), Name: oneOf(h.dice, "foo", "foo", "bar")}}
}

func (h *history) admin(p place) client.Client { return h.set[p.in].Admin }

// stepKinds are drawn in proportion to their weight. Each returns a description of what it did, or
// "" if there was nothing to do.
var stepKinds = []struct {
	weight int
	do     func(*history, place) (string, error)
}{
	{14, (*history).putService},
	{4, (*history).deleteService},
	{14, (*history).putExport},
	{5, (*history).deleteExport},
	{16, (*history).putSlice},
	{5, (*history).deleteSlice},
	{1, (*history).deleteNamespace},
	{6, (*history).createNamespace},
	{3, (*history).joinPeer},
	{1, (*history).leavePeer},
	{4, (*history).disturb},
	{3, (*history).resume},
	{2, (*history).restart},
	{1, (*history).endController},
	{4, (*history).startController},
	{7, (*history).edit},
	{2, (*history).putTheirs},
	{1, (*history).deleteTheirs},
	{6, (*history).await},
}

// weigh gives each history a bent of its own: a few kinds of steps are much more frequent in it.
func (h *history) weigh() {
	for _, kind := range stepKinds {
		h.weights = append(h.weights, kind.weight)
	}
	for range 3 {
		h.weights[h.IntN(len(h.weights))] *= 4
	}
}

// step does one of them.
func (h *history) step() {
	total := 0
	for _, weight := range h.weights {
		total += weight
	}
	for done := false; !done; {
		n, p := h.IntN(total), h.place()
		at := slices.IndexFunc(h.weights, func(weight int) bool {
			n -= weight
			return n < 0
		})
		done = h.do(p, stepKinds[at].do)
	}
}

// populate exports a name.
func (h *history) populate() {
	p := h.place()
	for _, put := range []func(*history, place) (string, error){(*history).putService, (*history).putSlice, (*history).putExport} {
		h.do(p, put)
	}
}

// do is false where there was nothing to be done.
func (h *history) do(p place, step func(*history, place) (string, error)) bool {
	said, err := step(h, p)
	if said != "" {
		h.steps = append(h.steps, fmt.Sprintf("%3d %s: %s", len(h.steps)+1, h.set[p.in].ID, said))
	}
	if err = lost(err); err != nil {
		h.Fatalf("%s: %v", said, err)
	}
	return said != ""
}

// lost ignores the errors of a step whose object was changed by another writer: the object exists
// already, or does not exist, or has changed, or its namespace is being deleted.
func lost(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

func metaOf(p place) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}
}

// service is a random one. All have IPv4: what becomes of a derived Service that has not the family that is asked for depends on what
// was before.
func (h *history) service(p place) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metaOf(p)}
	spec := &svc.Spec
	if h.one(12) {
		spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
		return svc
	}
	spec.Ports = oneOf(h.dice,
		[]corev1.ServicePort{{Name: "http", Port: 80}},
		[]corev1.ServicePort{{Name: "http", Port: 80}},
		[]corev1.ServicePort{{Name: "http", Port: 8080}},
		[]corev1.ServicePort{{Name: "web", Port: 80}},
		[]corev1.ServicePort{{Port: 80}},
		[]corev1.ServicePort{{Name: "http", Port: 80, AppProtocol: new("http")}, {Name: "metrics", Port: 9090}},
		[]corev1.ServicePort{{Name: "metrics", Port: 9090}, {Name: "http", Port: 80}},
		[]corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53}},
	)
	if h.one(4) {
		spec.ClusterIP = corev1.ClusterIPNone
		return svc
	}
	if h.one(6) {
		spec.Type = corev1.ServiceTypeNodePort
	}
	if h.one(4) {
		spec.SessionAffinity = corev1.ServiceAffinityClientIP
		if h.one(2) {
			spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(oneOf(h.dice, int32(60), 600))}}
		}
	}
	if h.one(6) {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if h.one(6) {
		spec.TrafficDistribution = new(oneOf(h.dice, corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameNode))
	}
	if p.in < 2 && h.one(4) { // the third cluster has IPv4 only
		world.DualStack(spec)
	}
	return svc
}

// putService creates or changes a Service. It creates it again if the API server does not permit
// the change.
func (h *history) putService(p place) (string, error) {
	svc := h.service(p)
	what := fmt.Sprintf("Service %s %s", p, mustJSON(svc.Spec))
	live := new(corev1.Service)
	err := h.admin(p).Get(h.Context(), p.ObjectKey, live)
	if apierrors.IsNotFound(err) {
		return "create " + what, h.admin(p).Create(h.Context(), svc)
	}
	if err != nil {
		return what, err
	}
	edited := live.DeepCopy()
	edited.Spec.Type, edited.Spec.Ports, edited.Spec.ExternalName = cmp.Or(svc.Spec.Type, corev1.ServiceTypeClusterIP), svc.Spec.Ports, ""
	edited.Spec.SessionAffinity, edited.Spec.SessionAffinityConfig = svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig
	edited.Spec.InternalTrafficPolicy, edited.Spec.TrafficDistribution = svc.Spec.InternalTrafficPolicy, svc.Spec.TrafficDistribution
	if edited.Spec.Type == corev1.ServiceTypeClusterIP {
		edited.Spec.ExternalTrafficPolicy = ""
	}
	external := live.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.Type == corev1.ServiceTypeExternalName
	headless := (live.Spec.ClusterIP == corev1.ClusterIPNone) != (svc.Spec.ClusterIP == corev1.ClusterIPNone)
	dual := len(live.Spec.IPFamilies) != max(1, len(svc.Spec.IPFamilies)) && svc.Spec.ClusterIP != corev1.ClusterIPNone
	if !external && !headless && !dual {
		return "change " + what, h.admin(p).Update(h.Context(), edited)
	}
	if err := h.admin(p).Delete(h.Context(), live); err != nil {
		return what, err
	}
	return "delete and create " + what, h.admin(p).Create(h.Context(), svc)
}

// exists is false where a request says that nothing was there: then nothing was done.
func exists(what string, err error) (string, error) {
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return what, err
}

func (h *history) deleteService(p place) (string, error) {
	return exists("delete Service "+p.String(), h.admin(p).Delete(h.Context(), &corev1.Service{ObjectMeta: metaOf(p)}))
}

func (h *history) putExport(p place) (string, error) {
	export := &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(p)}
	if h.one(3) {
		export.Spec.ExportedLabels = map[string]string{oneOf(h.dice, "team", "tier"): oneOf(h.dice, "blue", "red")}
	}
	if h.one(3) {
		export.Spec.ExportedAnnotations = map[string]string{"example.org/note": oneOf(h.dice, "one", "two"), "kubernetes.io/reserved": "x"}
	}
	what := fmt.Sprintf("ServiceExport %s %s", p, mustJSON(export.Spec))
	err := h.admin(p).Create(h.Context(), export)
	if !apierrors.IsAlreadyExists(err) {
		return "create " + what, err
	}
	live := new(mcsv1beta1.ServiceExport)
	if err := h.admin(p).Get(h.Context(), p.ObjectKey, live); err != nil {
		return what, err
	}
	live.Spec = export.Spec
	return "change " + what, h.admin(p).Update(h.Context(), live)
}

func (h *history) deleteExport(p place) (string, error) {
	return exists("delete ServiceExport "+p.String(), h.admin(p).Delete(h.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: metaOf(p)}))
}

func (h *history) sliceName(p place) client.ObjectKey {
	return client.ObjectKey{Namespace: p.Namespace, Name: p.Name + oneOf(h.dice, "-one", "-two", "-six")}
}

// putSlice makes endpoints as the cluster's own controller does, or changes them.
func (h *history) putSlice(p place) (string, error) {
	key := h.sliceName(p)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{
			discoveryv1.LabelServiceName: p.Name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: oneOf(h.dice,
			[]discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8000))}},
			[]discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8000))}},
			[]discoveryv1.EndpointPort{{Name: new("metrics"), Port: new(int32(9090))}, {Name: new("http"), Port: new(int32(8000))}, {Name: new("web"), Port: new(int32(8000))}},
		),
	}
	pattern := fmt.Sprintf("10.%d.%d.%%d", 100+p.in, h.IntN(200))
	if strings.HasSuffix(key.Name, "six") {
		slice.AddressType, pattern = discoveryv1.AddressTypeIPv6, fmt.Sprintf("fd00:%d::%d:%%d", 100+p.in, 1+h.IntN(200))
	}
	count := h.IntN(4)
	if h.one(15) {
		count = 101 + h.IntN(120)
	}
	for i := range count {
		ready := !h.one(4)
		e := discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf(pattern, i+1)}, NodeName: new(fmt.Sprintf("node-%d", i%2)),
			Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: new(ready || h.one(2)), Terminating: new(!ready && h.one(2))},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: fmt.Sprintf("pod-%d", i)},
		}
		if !h.one(3) {
			e.Hostname, e.Zone = new(fmt.Sprintf("pod-%d", i)), new(oneOf(h.dice, "zone-a", "zone-b"))
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	if h.one(2) {
		slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: fmt.Sprintf("2026-11-21T10:00:%02dZ", h.IntN(60))}
	}
	what := fmt.Sprintf("EndpointSlice %s of %d endpoints", key, count)
	err := h.admin(p).Create(h.Context(), slice)
	if !apierrors.IsAlreadyExists(err) {
		return "create " + what, err
	}
	return "change " + what, h.admin(p).Update(h.Context(), slice)
}

func (h *history) deleteSlice(p place) (string, error) {
	key := h.sliceName(p)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return exists("delete EndpointSlice "+key.String(), h.admin(p).Delete(h.Context(), slice))
}

func (h *history) deleteNamespace(p place) (string, error) {
	maps.DeleteFunc(h.theirs, func(obj client.Object, in int) bool { return in == p.in && obj.GetNamespace() == p.Namespace })
	return exists("delete namespace "+p.Namespace, h.admin(p).Delete(h.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}))
}

// createNamespace makes one that has not been yet, or whose former one has gone (C21).
func (h *history) createNamespace(p place) (string, error) {
	for _, namespace := range h.namespaces {
		err := h.admin(p).Create(h.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		if !apierrors.IsAlreadyExists(err) {
			return "create namespace " + namespace, err
		}
	}
	return "", nil
}

// await gives the controllers time to come along: until a cluster has an import of a name, or has none, but at most for half a second,
// as it may never come.
func (h *history) await(p place) (string, error) {
	want := h.one(2)
	ctx, cancel := context.WithTimeout(h.Context(), 500*time.Millisecond)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := h.admin(p).Get(ctx, p.ObjectKey, new(mcsv1beta1.ServiceImport))
		switch {
		case ctx.Err() != nil:
			return fmt.Sprintf("wait half a second for %s", p), nil
		case client.IgnoreNotFound(err) != nil:
			return "await", errors.Join(err)
		case apierrors.IsNotFound(err) != want:
			return fmt.Sprintf("wait until there is an import %s: %v", p, want), nil
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
