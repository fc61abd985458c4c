// Package reconcile is the controller's edge: it reads, asks plan what is missing, lets apply write it, and says when to look
// again. It decides nothing about objects.
//
//	api.go       which version of the CRD the server has, and what that version can hold
//	manager.go   the manager: caches, leader election, metrics
//	import.go    gather -> plan -> apply for one ServiceImport
//	enqueue.go   which import an event is about, and the indices that answer it
//	metrics.go   multicluster_serviceimports
//	probes.go    /healthz and /readyz, from before the CRD is there
package reconcile
