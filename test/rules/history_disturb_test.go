package rules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset-dns/multicluster/internal/mcs"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/world"
)

// link is one of a cluster to a peer.
func (h *history) link(p place) linkOf {
	return linkOf{p.in, (p.in + 1 + h.IntN(len(h.set)-1)) % len(h.set)}
}

func (h *history) joinPeer(p place) (string, error) {
	link := h.link(p)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: world.SystemNamespace, Name: h.set[link.peer].ID}}
	if err := h.admin(p).Get(h.Context(), client.ObjectKeyFromObject(secret), secret); err == nil {
		return "", nil
	}
	return "join " + h.set[link.peer].ID, h.join(link)
}

func (h *history) leavePeer(p place) (string, error) {
	link := h.link(p)
	h.left[link] = true
	peer := h.set[link.peer].ID
	return "leave " + peer, h.set[p.in].Leave(h.Context(), peer)
}

// disturb is what package fault can do to a link. What lasts, lasts until resume.
func (h *history) disturb(p place) (string, error) {
	link := h.link(p)
	if h.disturbed[link] != nil {
		return "", nil
	}
	api, peer := h.links[link], h.set[link.peer].ID
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
		lasts(api.Answer(&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: "disturbed"}}))
		return fmt.Sprintf("answers %d, %d connections cut: %s", code, api.Cut(), peer), nil
	default:
		resume, err := api.Refuse()
		h.disturbed[link] = resume
		return "refused: " + peer, err
	}
}

var reasons = map[int]metav1.StatusReason{
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusUnauthorized:        metav1.StatusReasonUnauthorized,
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

func (h *history) resume(p place) (string, error) {
	link := h.link(p)
	resume := h.disturbed[link]
	if resume == nil {
		return "", nil
	}
	delete(h.disturbed, link)
	return "reach again " + h.set[link.peer].ID, resume()
}

func (h *history) restart(p place) (string, error) {
	if h.ended[p.in] {
		return "", nil
	}
	if err := h.set[p.in].End(); err != nil {
		return "restart", err
	}
	return "restart", h.runController(p.in)
}

func (h *history) endController(p place) (string, error) {
	if h.ended[p.in] {
		return "", nil
	}
	h.ended[p.in] = true
	return "end the controller", h.set[p.in].End()
}

func (h *history) startController(p place) (string, error) {
	if !h.ended[p.in] {
		return "", nil
	}
	return "start the controller", h.runController(p.in)
}

// edit is what hands do to objects of ours; they heal. Hands do not take away the marks by which a Service or an import is ours.
func (h *history) edit(p place) (string, error) {
	seen, err := see(h.Context(), h.set[p.in], []string{p.Namespace})
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
		imp.Spec.Ports = []mcsv1beta1.ServicePort{{Port: 1}}
		return what + "port 1", h.admin(p).Update(h.Context(), imp)
	case 1:
		imp.Spec.Type, imp.Spec.IPs = oneOf(h.dice, mcsv1beta1.Headless, mcsv1beta1.ClusterSetIP), nil
		return what + "type " + string(imp.Spec.Type) + " and no ips", h.admin(p).Update(h.Context(), imp)
	case 2:
		imp.Spec.IPs, imp.Spec.IPFamilies = nil, nil
		return what + "no ips", h.admin(p).Update(h.Context(), imp)
	case 3:
		delete(imp.Labels, "team")
		delete(imp.Annotations, "example.org/note")
		imp.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		return what + "not what was exported", h.admin(p).Update(h.Context(), imp)
	default:
		// A cluster that the controller knows: for any other one it waits ten minutes after a restart
		// (TestClusterKnownFromImportsOnlyIsAwaited), which is longer than this test waits.
		imp.Status = mcsv1beta1.ServiceImportStatus{Clusters: []mcsv1beta1.ClusterStatus{{Cluster: oneOf(h.dice, members...)}}}
		return what + "another status", h.admin(p).Status().Update(h.Context(), imp)
	}
}

func (h *history) editService(p place, svc *corev1.Service) (string, error) {
	what := fmt.Sprintf("edit: Service %s has ", client.ObjectKeyFromObject(svc))
	switch h.IntN(3) {
	case 0:
		svc.Spec.Ports = []corev1.ServicePort{{Name: "other", Port: 77}}
		return what + "port 77", h.admin(p).Update(h.Context(), svc)
	case 1:
		svc.Spec.Selector = map[string]string{"app": "other"}
		return what + "a selector", h.admin(p).Update(h.Context(), svc)
	default:
		svc.Spec.SessionAffinity, svc.Spec.InternalTrafficPolicy = corev1.ServiceAffinityClientIP, new(corev1.ServiceInternalTrafficPolicyLocal)
		return what + "other policies", h.admin(p).Update(h.Context(), svc)
	}
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
