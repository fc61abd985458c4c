// Package reconcile connects the parts of the controller. For each name it reads the objects that
// belong to the name, calls plan to compute the changes, calls apply to write them, and schedules
// the next pass. It makes no decisions about objects.
//
//	api.go           the version of the CRD that the server has, and its fields
//	manager.go       the manager: leader election, metrics
//	cache.go         the objects and fields that the caches keep
//	identity.go      the ID of this cluster
//	service.go       the pass of one name: gather -> plan -> apply
//	gather.go        reads everything that belongs to one name, from the caches
//	clusterset.go    the exports of all clusters under a name, and their changes
//	memory.go        what the passes of a name remember
//	expected.go      writes that the caches do not show yet
//	associations.go  slices that kube-proxy may still use
//	enqueue.go       the names that an event affects, and the indices for them
//	metrics.go       multicluster_serviceimports and others
//	names.go         the names that change in a peer, the priority of new ones, and what imports record
//	tolerant.go      decodes objects that do not fit their Go type
//	probes.go        /healthz and /readyz, also before the CRD exists; the end of the process
package reconcile
