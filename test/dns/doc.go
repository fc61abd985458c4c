// Package dns starts the real CoreDNS with every Corefile that this project shows to its users, and asks it over UDP and TCP. A test is
// three calls:
//
//	func TestSomething(t *testing.T) {
//		inNetwork(t, func(w *world) {
//			w.coreDNS(example("stock")) // as make coredns left it in bin, as a pod of the cluster has it, and ready
//			w.wants("foo.default.svc.clusterset.local. A", "NOERROR 10.0.0.77")
//		})
//	}
//
// Each test has a network and mounts of its own, so that CoreDNS finds what it finds in a pod: port 53, its service account under
// /var/run/secrets, and an /etc/resolv.conf that leads to an upstream server of the test's. In every test, no name of the cluster or of the
// clusterset may go there.
//
// All tests share one API server (shared), with the objects of fixtures. A test may change everything there: at its end, w.apply and w.remove
// are undone. A test that waits for a time calls t.Parallel, to wait beside others, and w.ownNamespace, if it changes anything.
//
// The files chain_* run CoreDNS in the test's own process, under the race detector, with its stock plugins around ours, and ask it
// from many clients at once. Records that one client's answer shared with another's would be changed by the plugins in between:
// loadbalance reorders them, rewrite renames them, cache sets their TTL, dnssec adds to them, and the server adds each client's own OPT. So
// every reply is compared with all that it should say, and with nothing else: what is known from the objects that the test created.
package dns
