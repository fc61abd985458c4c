// Package apiserver is the API server of a cluster in memory, for tests and benchmarks that need a hundred clusters, or virtual time.
//
//	request ─▶ Server ─▶ discovery                        which versions are served
//	                 ├─▶ read    get, list                ◀─ store: the objects of one kind, and the last changes
//	                 ├─▶ watch   from a version, or all   ◀─ store, with bookmarks
//	                 └─▶ write   create, update, patch,   ─▶ admission ─▶ defaults, addresses ─▶ managedFields ─▶ store
//	                             apply, delete, status
//
// It does what a kube-apiserver does, as far as the controller, the plugin and the tools of users can notice: versions, generations,
// optimistic concurrency, managedFields, finalizers, subresources, ClusterIPs from a finite range, and errors. Collect is the garbage
// collector and the namespace controller. All of this is compared with real ones:
//
//	TestLikeAKubeAPIServer, TestRandomRequests   the same requests to both: answers, and what watches are told
//	TestLikeControllers, TestRandomOwners        the same, with real controllers, and all objects when they have come to rest
//	Replay                                       the writes of the stories of test/simulation: answers, and all objects in the end
//
// What it lacks: pages (a limit is only a wish), validation beyond what those tests show, conversion (each kind has one version), the
// conditions of a Namespace that is being deleted, and owners of kinds that it does not have: these let an object stay.
package apiserver
