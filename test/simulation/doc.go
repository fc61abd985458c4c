// Package simulation plays stories in a whole clusterset in one process, in virtual time (testing/synctest): an hour takes a second or
// two.
//
//	testdata/*.txt ─▶ story ─▶ cluster: an API server in memory (test/apiserver), the production controller, the plugin's watch
//	                    │         │
//	                    │         ▼
//	                    │      network: which clusters reach one another, whose API server listens, whose pods answer
//	                    ▼
//	                  tables of what each cluster has: imports, what kube-proxy would use, what DNS answers
//
// A story is a text file: lines with # say what happens, other lines are steps in the words of kubectl, and what a step prints is indented
// below it. go test -update writes what they print now.
//
// What is real: the controller with its manager, caches and clients, and the plugin's watch and index. What is a model: the network,
// kube-proxy, and the API server, whose truth test/apiserver shows. Kubernetes' own controllers do not run yet: nobody collects garbage,
// and a namespace that is deleted stays.
package simulation
