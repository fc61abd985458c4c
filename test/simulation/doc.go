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
// below it. A history is a random story, which follows from its seed. Both end with "settle": all that disturbs ends, and the clusterset has to
// come to what the true state says, and to rest.
//
//	go test -run TestStories/export ./test/simulation            one story; -update writes what its steps print now
//	go test -run TestHistories ./test/simulation                 the first hundred histories
//	make simulate FOR=10m                                        those of new seeds
//	go test -v -run TestHistories ./test/simulation -seed 1234   one history: a failure is shortened to the steps that it needs
//	go test -v -run TestOne ./test/simulation -story FILE        a story, with each change of an object
//
// A step is in story.go with its name, and in objects.go, faults.go or tables.go with its meaning. What is real: the controller with its
// manager, caches and clients, and the plugin's watch and index. What is a model: the network, kube-proxy, the garbage collector, the
// namespace controller and the API server. Of the last three, test/apiserver shows the truth, and TestStoriesLikeAKubeAPIServer makes each
// write of the stories again in a kube-apiserver. Undetermined is which of two goroutines comes first at the same virtual time, so a seed
// does not find each failure each time.
package simulation
