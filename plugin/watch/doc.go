// Package watch keeps an index equal to what an API server holds.
//
// In: ServiceImports of multicluster.x-k8s.io, in v1beta1 or v1alpha1 as the server has them, and the EndpointSlices labelled
// multicluster.kubernetes.io/service-name. Out: the newest Index, in one atomic pointer.
//
//	API server -> reflector -> trim -> index.State -> publish -> atomic.Pointer[index.Index]
//
// An object is trimmed as it is decoded, and the State is all that is kept of it: there is no informer cache beside it.
//
// Absent is not empty. Before the first sync of every resource there is no Index at all. A list or watch that fails, for whatever
// reason, leaves the last Index as it is. Only a server that answers discovery and does not have the resource says that there are
// no imports; the resource is then looked for until it is there.
package watch
