// Package clusters gives tests real Kubernetes clusters on this one machine: dual-stack, with pods,
// ClusterIPs and `kubectl exec`, and without a container registry. It works on Linux, as root.
//
//	Start, Stop   one Cluster: etcd, the programs of Kubernetes and containerd, in a network namespace
//	Load          load an image archive into its node
//	Open, List    the clusters that run already, from any process
//	Remove        remove a cluster by name, also the remains of one whose process was killed
//
// The addresses follow from a cluster's index, 1 to 9:
//
//	172.31.250.INDEX      fd00:99::INDEX      its only node and, at port 6443, its API server; the machine itself has .254 and ::fe
//	10.(100+INDEX).0.0    fd00:10:INDEX::     its pods, /16 and /64
//	10.(200+INDEX).0.0    fd00:20:INDEX::     its ClusterIPs, /16 and /112
//	10.(200+INDEX).0.10                       the DNS server of its pods, which the tests bring
//
// Pods of all clusters reach each other's addresses directly, as on one flat network. Each cluster
// has its own ClusterIPs. Nothing else is reachable from inside: no packet leaves the machine.
//
// Programs outlive the process that started them, until Stop or Remove. Containers use mounts and
// network namespaces that the machine does not see and that the kernel removes with the last
// process: there is nothing to unmount.
//
// Its own tests, and tests that need it, require CLUSTERS=1: `CLUSTERS=1 go test ./test/clusters`.
// People use `go run ./test/clusters/run` and the Makefile's clusters-up and clusters-down.
//
// Not implemented: several nodes in a cluster, storage, load balancers.
package clusters
