// Package kube gives tests and demonstrations a real kube-apiserver with a real etcd, on loopback and without root.
//
//	Build         the programs, from the pinned sources of test/kube/programs, once for each user and version
//	Start, Stop   one Cluster: etcd and kube-apiserver in a temporary folder
//	Shared        one Cluster for all tests of a package, started by the first that asks
//	InstallCRDs   the ServiceImport and ServiceExport CRDs, in each form that clusters in the field have
//	Eventually    waiting for a condition; nothing here, and no test, sleeps for a fixed time
//	InNetNS       a test in a network of its own, where kube-proxy may program nftables; that of a Shared has its Cluster there
//	MainInNetNS   the same for all tests of a package together, with one kube-proxy
//
// What it will not do: there are no nodes, no pods and no cluster DNS. Every program that it starts ends with the process that
// started it, however that process ends (on Linux; elsewhere Stop has to be reached).
package kube
