package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/clusterset-dns/multicluster/controller/merge"
	"github.com/clusterset-dns/multicluster/internal/mcs"
	announced "github.com/clusterset-dns/multicluster/internal/member"
	"github.com/clusterset-dns/multicluster/internal/ownership"
	"github.com/clusterset-dns/multicluster/test/world"
)

// World says what all peers have. The same World always gives the same objects.
type World struct {
	Peers    int
	Services int // that each peer exports
	// Shared is how many of them have the same names in all peers. The others have names that no other peer exports.
	Shared    int
	Endpoints int // of each exported Service, in one slice
	// Namespaces is how many namespaces the Services are in, by turns.
	Namespaces int
}

// ID returns the cluster ID of a peer.
func (w World) ID(peer int) string { return fmt.Sprintf("p%02d", peer) }

// Namespace returns the namespace of the Services with a number.
func (w World) Namespace(i int) string { return fmt.Sprintf("shop-%d", i%max(w.Namespaces, 1)) }

// AllNamespaces returns the namespaces that the Services are in.
func (w World) AllNamespaces() (names []string) {
	for i := range max(w.Namespaces, 1) {
		names = append(names, w.Namespace(i))
	}
	return names
}

// Name returns the name of an exported Service of a peer.
func (w World) Name(peer, i int) string {
	if i < w.Shared {
		return fmt.Sprintf("shared-%d", i)
	}
	return fmt.Sprintf("app-%s-%d", w.ID(peer), i)
}

// meta is the head of a Service and of its export.
func (w World) meta(peer, i int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.Namespace(i), Name: w.Name(peer, i)}
}

// Imports returns how many names all peers together export.
func (w World) Imports() int { return w.Shared + w.Peers*(w.Services-w.Shared) }

// Slices returns how many EndpointSlices an importing cluster gets.
func (w World) Slices() int { return w.Peers * w.Services }

// Objects returns the objects of a peer, one after another, without those that each API server has.
func (w World) Objects(peer int) iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for _, name := range w.AllNamespaces() {
			if !yield(managed(newNamespace(name), "kubectl")) {
				return
			}
		}
		if !yield(managed(newNamespace(world.SystemNamespace), "kubectl")) || !yield(w.announcing(peer, time.Now())) {
			return
		}
		for i := range w.Services {
			if !yield(w.export(peer, i)) || !yield(w.Slice(peer, i)) {
				return
			}
		}
	}
}

// The objects are as a kube-apiserver returns them: with all defaults, and with managedFields, which are a large part of what is read.

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// announcing returns the Lease with which a peer's controller announces its cluster.
func (w World) announcing(peer int, at time.Time) *coordinationv1.Lease {
	l, _ := announced.Announcement{ID: w.ID(peer), UID: "uid-of-" + w.ID(peer), Version: "simulated", Renewed: at.Truncate(time.Second)}.Lease(world.SystemNamespace, 100*time.Second)
	return managed(l, mcs.ControllerName)
}

// Beat writes the heartbeats of the controllers of all peers until ctx ends or a write fails: one of each peer in half a minute, evenly
// spread, as controllers that were started at different times do.
func (w World) Beat(ctx context.Context, peers []*peer) error {
	tick := time.NewTicker(30 * time.Second / time.Duration(len(peers)))
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(peers) {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := peers[i].Put(w.announcing(i, now)); err != nil {
				return err
			}
		}
	}
}

// export returns a ServiceExport with the conditions that the peer's controller wrote.
func (w World) export(peer, i int) *mcsv1beta1.ServiceExport {
	e := &mcsv1beta1.ServiceExport{ObjectMeta: w.meta(peer, i)}
	e.Generation = 1
	for _, kind := range []string{"Valid", "Ready", "Conflict"} {
		e.Status.Conditions = append(e.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, ObservedGeneration: 1, LastTransitionTime: created, Reason: kind, Message: "as long as a message is",
		})
	}
	conflict := &e.Status.Conditions[2]
	conflict.Status, conflict.Reason = metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoConflicts)
	return managed(e, "kubectl")
}

// Slice returns the EndpointSlice that the peer's controller made of the endpoints of an exported Service. Those that the peer's Kubernetes
// made are not read by others. It describes the Service.
func (w World) Slice(peer, i int) *discoveryv1.EndpointSlice {
	at, cluster := w.meta(peer, i), w.ID(peer)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s-0", cluster, at.Name))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: at.Namespace, Generation: 1,
			Name: ownership.SliceStem(at.Name, cluster, discoveryv1.AddressTypeIPv4) + hex.EncodeToString(sum[:])[:ownership.HashLength],
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName: at.Name, mcsv1beta1.LabelSourceCluster: cluster, discoveryv1.LabelManagedBy: mcs.ControllerName,
				discoveryv1.LabelServiceName: ownership.DefaultDerivedName(at.Namespace, at.Name),
			},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: "2026-01-01T00:00:00Z"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: at.Name,
				UID: "00000000-0000-4000-8000-000000000000", Controller: new(true), BlockOwnerDeletion: new(false),
			}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	managed(slice, mcs.ControllerName)
	for e := range w.Endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{w.address(peer, i, e)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(fmt.Sprintf("node-%d", e%50)), Zone: new(fmt.Sprintf("zone-%d", e%3)),
		})
	}
	svc := &corev1.Service{Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		Type:  corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.10", ClusterIPs: []string{"10.0.0.10"}, SessionAffinity: corev1.ServiceAffinityNone,
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
		InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
	}}
	slice.Annotations[mcs.AnnotationTerms] = merge.TrimService(svc).Terms()
	return slice
}

// address returns the address of an endpoint. No other endpoint of the World has it. The first 65,536 addresses of 10.0.0.0/8 are left to
// ClusterIPs.
func (w World) address(peer, i, e int) string {
	n := 1<<16 + (peer*w.Services+i)*w.Endpoints + e
	return fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
}

// created is when everything was created.
var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

// managed sets the time of the creation, and managedFields that are about as long as those of an API server. Nothing reads them.
func managed[T client.Object](object T, manager string) T {
	object.SetCreationTimestamp(created)
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // the types of Kubernetes marshal
	}
	fields := map[string]any{}
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	delete(fields["metadata"].(map[string]any), "namespace")
	delete(fields["metadata"].(map[string]any), "name")
	owned, err := fieldpath.SetFromValue(value.NewValueInterface(fields)).ToJSON()
	if err != nil {
		panic(err)
	}
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(string(owned)),
	}})
	return object
}
