package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
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
	return place{h.IntN(len(h.Clusters)), client.ObjectKey{Namespace: oneOf(h.dice, a, a, b), Name: oneOf(h.dice, "foo", "foo", "bar")}}
}

func (h *history) admin(p place) client.Client { return h.Clusters[p.in].Admin }

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
		h.steps = append(h.steps, fmt.Sprintf("%3d %s: %s", len(h.steps)+1, h.Clusters[p.in].ID, said))
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
	return exists("delete namespace "+p.Namespace, h.admin(p).Delete(h.Context(), namespaceOf(p.Namespace)))
}

// createNamespace makes one that has not been yet, or whose former one has gone (C21).
func (h *history) createNamespace(p place) (string, error) {
	for _, namespace := range h.namespaces {
		err := h.admin(p).Create(h.Context(), namespaceOf(namespace))
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

// link is one of a cluster to a peer.
func (h *history) link(p place) linkOf {
	return linkOf{p.in, (p.in + 1 + h.IntN(len(h.Clusters)-1)) % len(h.Clusters)}
}

func (h *history) joinPeer(p place) (string, error) {
	link := h.link(p)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: h.Clusters[link.peer].ID}}
	if err := h.admin(p).Get(h.Context(), client.ObjectKeyFromObject(secret), secret); err == nil {
		return "", nil
	}
	return "join " + h.Clusters[link.peer].ID, h.join(link)
}

func (h *history) leavePeer(p place) (string, error) {
	link := h.link(p)
	h.left[link] = true
	peer := h.Clusters[link.peer].ID
	return "leave " + peer, h.Clusters[p.in].Leave(h.Context(), peer)
}

// disturb is what package fault can do to a link. What lasts, lasts until resume.
func (h *history) disturb(p place) (string, error) {
	link := h.link(p)
	if h.disturbed[link] != nil {
		return "", nil
	}
	api, peer := h.links[link], h.Clusters[link.peer].ID
	lasts := func(resume func()) { h.disturbed[link] = func() error { resume(); return nil } }
	switch h.IntN(10) {
	case 0:
		return fmt.Sprintf("cut %d connections to %s", api.Cut(), peer), nil
	case 1:
		return fmt.Sprintf("watches of %s are too old: %d", peer, api.Expire()), nil
	case 2:
		return fmt.Sprintf("strand %d connections to %s", api.Strand(), peer), nil
	case 3:
		lasts(api.Slow(time.Duration(20+h.IntN(200)) * time.Millisecond))
		return "slow: " + peer, nil
	case 4, 5:
		lasts(api.Stall())
		return "half open: " + peer, nil
	case 6:
		lasts(api.Hollow())
		return fmt.Sprintf("hollow lists, %d connections cut: %s", api.Cut(), peer), nil
	case 7:
		code := oneOf(h.dice, http.StatusInternalServerError, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
		lasts(api.Answer(apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "", "disturbed", 0, true)))
		return fmt.Sprintf("answers %d, %d connections cut: %s", code, api.Cut(), peer), nil
	default:
		resume, err := api.Refuse()
		h.disturbed[link] = resume
		return "refused: " + peer, err
	}
}

func (h *history) resume(p place) (string, error) {
	link := h.link(p)
	resume := h.disturbed[link]
	if resume == nil {
		return "", nil
	}
	delete(h.disturbed, link)
	return "reach again " + h.Clusters[link.peer].ID, resume()
}

func (h *history) restart(p place) (string, error) {
	if h.ended[p.in] {
		return "", nil
	}
	if err := h.Clusters[p.in].End(); err != nil {
		return "restart", err
	}
	return "restart", h.runController(p.in)
}

func (h *history) endController(p place) (string, error) {
	if h.ended[p.in] {
		return "", nil
	}
	h.ended[p.in] = true
	return "end the controller", h.Clusters[p.in].End()
}

func (h *history) startController(p place) (string, error) {
	if !h.ended[p.in] {
		return "", nil
	}
	return "start the controller", h.runController(p.in)
}

// edit is what hands do to objects of ours; they heal. Hands do not take away the marks by which a Service or an import is ours.
func (h *history) edit(p place) (string, error) {
	seen, err := see(h.Context(), h.Clusters[p.in], []string{p.Namespace})
	if err != nil {
		return "look", err
	}
	imp, svc := seen.imports[p.ObjectKey], seen.services[client.ObjectKey{Namespace: p.Namespace, Name: "derived-" + p.Name}]
	switch h.IntN(8) {
	case 0:
		return h.deleteOurs(p, imp != nil && ownership.OfImport(imp), imp)
	case 1, 2:
		if imp == nil || !ownership.OfImport(imp) {
			return "", nil
		}
		return h.editImport(p, imp, seen.members())
	case 3:
		return h.deleteOurs(p, svc != nil && len(ownership.OwnerImports(svc)) > 0, svc)
	case 4:
		if svc == nil || len(ownership.OwnerImports(svc)) == 0 {
			return "", nil
		}
		return h.editService(p, svc)
	case 5:
		export := seen.exports[p.ObjectKey]
		if export == nil {
			return "", nil
		}
		export.Status.Conditions = nil
		return "edit: no conditions on ServiceExport " + p.String(), h.admin(p).Status().Update(h.Context(), export)
	default:
		return h.editSlice(p, seen)
	}
}

func (h *history) deleteOurs(p place, ours bool, obj client.Object) (string, error) {
	if !ours {
		return "", nil
	}
	return fmt.Sprintf("edit: delete %T %s", obj, client.ObjectKeyFromObject(obj)), h.admin(p).Delete(h.Context(), obj)
}

func (h *history) editImport(p place, imp *mcsv1beta1.ServiceImport, members []string) (string, error) {
	what := fmt.Sprintf("edit: import %s has ", p)
	switch h.IntN(5) {
	case 0:
		imp.Spec.Ports, what = []mcsv1beta1.ServicePort{{Port: 1}}, what+"port 1"
	case 1:
		imp.Spec.Type, imp.Spec.IPs = oneOf(h.dice, mcsv1beta1.Headless, mcsv1beta1.ClusterSetIP), nil
		what += "type " + string(imp.Spec.Type) + " and no ips"
	case 2:
		imp.Spec.IPs, imp.Spec.IPFamilies, what = nil, nil, what+"no ips"
	case 3:
		delete(imp.Labels, "team")
		delete(imp.Annotations, "example.org/note")
		imp.Spec.SessionAffinity, what = corev1.ServiceAffinityClientIP, what+"not what was exported"
	default:
		// A cluster that the controller knows: for any other one it waits ten minutes after a restart
		// (TestClusterKnownFromImportsOnlyIsAwaited), which is longer than this test waits.
		imp.Status = mcsv1beta1.ServiceImportStatus{Clusters: []mcsv1beta1.ClusterStatus{{Cluster: oneOf(h.dice, members...)}}}
		return what + "another status", h.admin(p).Status().Update(h.Context(), imp)
	}
	return what, h.admin(p).Update(h.Context(), imp)
}

func (h *history) editService(p place, svc *corev1.Service) (string, error) {
	what := fmt.Sprintf("edit: Service %s has ", client.ObjectKeyFromObject(svc))
	switch h.IntN(3) {
	case 0:
		svc.Spec.Ports, what = []corev1.ServicePort{{Name: "other", Port: 77}}, what+"port 77"
	case 1:
		svc.Spec.Selector, what = map[string]string{"app": "other"}, what+"a selector"
	default:
		svc.Spec.SessionAffinity, svc.Spec.InternalTrafficPolicy = corev1.ServiceAffinityClientIP, new(corev1.ServiceInternalTrafficPolicyLocal)
		what += "other policies"
	}
	return what, h.admin(p).Update(h.Context(), svc)
}

// editSlice changes or deletes one that was imported for a name.
func (h *history) editSlice(p place, seen *seenCluster) (string, error) {
	ours := map[client.ObjectKey]bool{}
	for key, slice := range seen.slices {
		if slice.Labels[discoveryv1.LabelManagedBy] == mcs.ControllerName && slice.Labels[mcsv1beta1.LabelServiceName] == p.Name {
			ours[key] = true
		}
	}
	if len(ours) == 0 {
		return "", nil
	}
	slice := seen.slices[oneOf(h.dice, sortedKeys(ours)...)]
	what := "edit: slice " + slice.Name + " has "
	switch h.IntN(7) {
	case 0:
		return h.deleteOurs(p, true, slice)
	case 1:
		slice.Endpoints, what = []discoveryv1.Endpoint{{Addresses: []string{oneOf(h.dice, "10.6.6.6", "10.7.7.7")}}}, what+"another endpoint"
		if slice.AddressType == discoveryv1.AddressTypeIPv6 {
			slice.Endpoints = nil
		}
	case 2:
		slice.Labels[mcsv1beta1.LabelSourceCluster], what = "c9", what+"another cluster"
	case 3:
		slice.Labels[mcsv1beta1.LabelServiceName], what = oneOf(h.dice, "foo", "bar"), what+"another name"
	case 4:
		slice.Labels[discoveryv1.LabelManagedBy], what = "me", what+"another manager"
	case 5:
		slice.Labels, what = nil, what+"no labels"
	default:
		slice.OwnerReferences, what = nil, what+"no owner"
	}
	return what, h.admin(p).Update(h.Context(), slice)
}

// putTheirs makes what others make: an import, a slice of an import, or a Service that has the name of a derived one.
func (h *history) putTheirs(p place) (string, error) {
	var obj client.Object
	switch h.IntN(3) {
	case 0:
		obj = &mcsv1beta1.ServiceImport{
			ObjectMeta: metaOf(p),
			Spec: mcsv1beta1.ServiceImportSpec{
				Type: oneOf(h.dice, mcsv1beta1.Headless, mcsv1beta1.ClusterSetIP), Ports: []mcsv1beta1.ServicePort{{Name: "theirs", Port: 7, Protocol: corev1.ProtocolTCP}},
			},
		}
	case 1:
		obj = &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: p.Namespace, Name: "theirs-" + p.Name},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.8.8.8"}}},
		}
		obj.SetLabels(map[string]string{mcsv1beta1.LabelServiceName: p.Name, mcsv1beta1.LabelSourceCluster: "c1", discoveryv1.LabelManagedBy: "cilium"})
	default:
		obj = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "derived-" + p.Name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 7}}}}
	}
	what := fmt.Sprintf("others create %T %s", obj, client.ObjectKeyFromObject(obj))
	err := h.admin(p).Create(h.Context(), obj)
	if err == nil {
		h.theirs[obj] = p.in
	} else if apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	return what, err
}

func (h *history) deleteTheirs(p place) (string, error) {
	var mine []client.Object
	for obj, in := range h.theirs {
		if in == p.in {
			mine = append(mine, obj)
		}
	}
	if len(mine) == 0 {
		return "", nil
	}
	key := func(obj client.Object) string { return fmt.Sprintf("%T %s", obj, client.ObjectKeyFromObject(obj)) }
	slices.SortFunc(mine, func(a, b client.Object) int { return slices.Compare([]string{key(a)}, []string{key(b)}) })
	obj := oneOf(h.dice, mine...)
	maps.DeleteFunc(h.theirs, func(other client.Object, _ int) bool { return other == obj })
	return "others delete " + key(obj), h.admin(p).Delete(h.Context(), obj)
}
