// Package simulation plays a whole clusterset in one process, in virtual time (testing/synctest): an idle hour takes less than a second.
//
//	testdata/*.txt ─▶ story ─────▶ cluster: an API server in memory (test/apiserver), the production controller, the plugin's watch
//	seed ─▶ history ─▶ │              │
//	                   │              ▼
//	                   │           network: which clusters reach one another, whose API server answers, whose pods do
//	                   ▼              │ each change of an object
//	                tables            ▼
//	                               judges: what has to be true after each of them, and (oracle, fresh) in the end
//
// A story is a text file: lines with # say what happens, other lines are steps in the words of kubectl, and what a step prints is indented
// below it. A history is a random story, which follows from its seed. Both end with "settle": all faults end, and the clusterset has to converge to
// what the true state says, and to write nothing any more.
//
//	go test -run '^TestStories$/^export$' ./test/simulation      one story; -update writes what its steps print now: read that
//	go test -run '^TestHistories$' ./test/simulation             the first hundred histories
//	make simulate FOR=10m                                        those of new seeds
//	make simulate SEED=1234                                      one history: a failure is shortened to the steps that it needs
//	go test -v -run '^TestOne$' ./test/simulation -story=FILE    a story, with each change of an object; FILE is a path from here
//
// The table in story.go has all steps; each function has examples, in objects.go, faults.go, lies.go or tables.go. In a story, a step whose object is
// missing is an error; in a history, it is skipped. An address says where a pod is: 10.9.1.0 to 10.9.1.255 and fd00::1 are pods of member1. The
// port of a Service leads to the port of its pods that is 8000 more.
//
// What is real: the controller with its manager, caches and clients, and the plugin's watch and index. What is a model: the network, kube-proxy, the
// API server, the garbage collector and the namespace controller. The tests of test/apiserver compare the last three with real ones, and
// TestWritesLikeAKubeAPIServer makes each write of the stories again in a kube-apiserver. Undetermined is which of two goroutines comes first at the same
// virtual time, so a seed does not find each failure each time.
package simulation
