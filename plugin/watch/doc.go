// Package watch keeps an index equal to the content of an API server.
//
// In: ServiceImports of multicluster.x-k8s.io, in v1beta1 or v1alpha1, whichever the server has,
// and the EndpointSlices with the label multicluster.kubernetes.io/service-name. Out: the newest
// View, which is an Index and what it still lacks, in one atomic pointer.
//
//	API server -> reflector -> trim -> index.State -> publisher -> atomic.Pointer[View]
//
// An object is trimmed as soon as it is decoded, or a page of 500 where the API server does not stream
// lists. Only the State keeps it: there is no informer cache.
//
// Absent is not empty. Before the first list of ServiceImports there is no View, and a View knows which
// lists have not arrived. If a list or watch fails, for any reason, the last View stays. Only a server that answers discovery and does
// not have the resource has no imports. The resource is then looked for until it exists.
package watch
