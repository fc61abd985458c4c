// Package reconcile is the controller's edge: it reads, asks plan what is missing, lets apply write it, and says when to look
// again. It decides nothing about objects.
//
//	api.go       which version of the CRD the server has, and what that version can hold
//	manager.go   the manager: caches, leader election, metrics
//	identity.go  which id this cluster has
//	name.go      gather -> plan -> apply for one name
//	expected.go  what was written and the caches do not show yet
//	clusterset.go  what the clusters say of a name, and when that changes
//	enqueue.go   which name an event is about, and the indices that answer it
//	metrics.go   multicluster_serviceimports and others
//	probes.go    /healthz and /readyz, from before the CRD is there
package reconcile
