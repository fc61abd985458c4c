// Package apiserver is the API server of a cluster in memory, for tests and benchmarks that need a hundred clusters, or virtual time.
//
//	request ─▶ Server ─▶ discovery                        which versions are served
//	                 ├─▶ read    get, list                ◀─ store: the objects of one kind, and the last changes
//	                 ├─▶ watch   from a version, or all   ◀─ store, with bookmarks
//	                 └─▶ write   create, update, patch,   ─▶ admission ─▶ defaults, addresses ─▶ managedFields ─▶ store
//	                             apply, delete, status
//
// It does what a kube-apiserver does, as far as the controller, the plugin and the tools of users can notice: versions, generations,
// optimistic concurrency, managedFields, finalizers, subresources, ClusterIPs from a finite range, and errors. TestLikeAKubeAPIServer
// gives both the same requests and compares what they answer and what they store.
//
// What it lacks: pages (a limit is only a wish), validation beyond what those tests show, and conversion: each kind has one version.
package apiserver
