// Package reconcile wires the controller. For each name it reads what belongs to it, has plan decide what is missing, has apply write that, and
// decides when to do so again. It decides nothing about objects.
//
//	api.go           which version of the CRD the server has, and what that version can hold
//	manager.go       the manager: leader election, metrics; cache.go what it keeps in memory
//	identity.go      which id this cluster has
//	service.go       gather -> plan -> apply for one name
//	gather.go        reads everything that belongs to one name, from the caches
//	clusterset.go    what the clusters export under a name, and when that changes
//	expected.go      what was written and the caches do not show yet
//	contests.go      fields that another writer keeps setting back
//	associations.go  slices that kube-proxy may still have; sliceevents.go what notes them
//	enqueue.go       which name an event is about, and the indices that answer it
//	metrics.go       multicluster_serviceimports and others
//	vacancies.go     exports whose Service is being replaced
//	remembered.go    clusters that imports have something of
//	readyby.go       who wrote an import's condition Ready
//	waiting.go       new names wait behind those that are there
//	tolerant.go      decodes item by item; ending.go is about the end of the process
//	probes.go        /healthz and /readyz, from before the CRD is there
package reconcile
