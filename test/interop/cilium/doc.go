// Package cilium runs this project beside Cilium's own Multi-Cluster Services: two clusters with cilium-operator, clustermesh-apiserver
// and its etcd, without nodes. There is no datapath, so DNS and objects are tested, not connections. `make e2e-cilium` runs it.
package cilium
