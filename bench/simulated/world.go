package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset-dns/multicluster/internal/ownership"
)

// World says what all peers have. The same World always gives the same objects.
type World struct {
	Peers    int
	Services int // that each peer exports
	// Shared is how many of them have the same names in all peers. The others have names that no other peer exports.
	Shared    int
	Endpoints int // of each exported Service
	// SliceSize is the largest number of endpoints of an EndpointSlice, 100 unless given, as controllers have it.
	SliceSize int
	// HeadlessEvery makes every so-manieth exported Service a headless one; 0 for none.
	HeadlessEvery int
	// Unexported are further Services of each peer. A controller reads all Services of a peer that does not describe those that it
	// exports, also the derived Services of what the peer imports.
	Unexported int
	// Undescribed makes the peers as those of earlier releases, whose slices do not describe the Services.
	Undescribed bool
	// Namespaces is how many namespaces the Services are in, by turns; 1 unless given.
	Namespaces int
}

// SystemNamespace is the namespace of the peers' controllers.
const SystemNamespace = "multicluster-system"

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

// Imports returns how many names all peers together export.
func (w World) Imports() int { return w.Shared + w.Peers*(w.Services-w.Shared) }

// Slices returns how many EndpointSlices an importing cluster gets.
func (w World) Slices() int { return w.Peers * w.Services * w.slicesOfService() }

func (w World) slicesOfService() int { return max(1, (w.Endpoints+w.sliceSize()-1)/w.sliceSize()) }

func (w World) sliceSize() int {
	if w.SliceSize == 0 {
		return 100
	}
	return w.SliceSize
}

// Headless reports whether an exported Service is headless.
func (w World) Headless(i int) bool {
	return w.HeadlessEvery > 0 && i%w.HeadlessEvery == w.HeadlessEvery-1
}

// Objects returns the objects of a peer, one after another: all together need much more memory than their encodings.
func (w World) Objects(peer int) iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for object := range w.namespaces(peer) {
			if !yield(object) {
				return
			}
		}
		for i := range w.Services {
			for _, object := range w.Exported(peer, i) {
				if !yield(object) {
					return
				}
			}
		}
		for i := range w.Unexported {
			at := name{w.Namespace(i), fmt.Sprintf("internal-%d", i)}
			if !yield(service(at, w.clusterIP(w.Services+i), 80)) {
				return
			}
		}
	}
}

// namespaces returns those of Kubernetes, that of the controller, and those of the Services.
func (w World) namespaces(peer int) iter.Seq[client.Object] {
	return func(yield func(client.Object) bool) {
		for _, name := range slices.Concat([]string{"default", "kube-node-lease", "kube-public", "kube-system"}, w.AllNamespaces()) {
			if !yield(namespace(name, w.ID(peer))) {
				return
			}
		}
		yield(w.announcing(peer))
	}
}

// Exported returns a Service of a peer, its ServiceExport, and the EndpointSlices that the peer's controller made of its endpoints.
// Those that the peer's Kubernetes made are not read by others.
func (w World) Exported(peer, i int) []client.Object {
	at := name{w.Namespace(i), w.Name(peer, i)}
	all := []client.Object{w.service(peer, i), export(at)}
	for part := range w.slicesOfService() {
		all = append(all, w.Slice(peer, i, part))
	}
	return all
}

// service returns an exported Service.
func (w World) service(peer, i int) *corev1.Service {
	ip := w.clusterIP(i)
	if w.Headless(i) {
		ip = corev1.ClusterIPNone
	}
	return service(name{w.Namespace(i), w.Name(peer, i)}, ip, 80)
}

// Slice returns one EndpointSlice of an exported Service. The first describes the Service.
func (w World) Slice(peer, i, part int) *discoveryv1.EndpointSlice {
	at := name{w.Namespace(i), w.Name(peer, i)}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s-%d", w.ID(peer), at.name, part))
	hash := hex.EncodeToString(sum[:])[:ownership.HashLength]
	slice := emptySlice(at, w.ID(peer), ownership.SliceStem(at.name, w.ID(peer), discoveryv1.AddressTypeIPv4)+hash, w.Headless(i))
	begin := part * w.sliceSize()
	for e := begin; e < min(begin+w.sliceSize(), w.Endpoints); e++ {
		one := endpoint(w.Address(peer, i, e), e)
		if w.Headless(i) { // a StatefulSet's pods have names
			one.Hostname = new(fmt.Sprintf("%s-%d", at.name, e))
		}
		slice.Endpoints = append(slice.Endpoints, one)
	}
	if part == 0 && !w.Undescribed {
		describe(slice, w.service(peer, i))
	}
	return slice
}

// Address returns the address of an endpoint. No other endpoint of the World has it. The first 65,536 addresses of 10.0.0.0/8 are left to
// ClusterIPs.
func (w World) Address(peer, i, e int) string {
	n := 1<<16 + (peer*w.Services+i)*w.Endpoints + e
	return fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
}

// clusterIP returns an address that may be the same in several peers, as nothing outside of a cluster uses it.
func (w World) clusterIP(i int) string { return fmt.Sprintf("10.0.%d.%d", (i+10)>>8, (i+10)&255) }
