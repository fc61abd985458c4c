// Package pluginchain runs CoreDNS in the test's own process, under the race detector, with its stock plugins around ours, and asks it
// from many clients at once.
//
// Records that one client's answer shared with another's would be changed by the plugins in between: loadbalance reorders them,
// rewrite renames them, cache sets their TTL, dnssec adds to them, and the server adds each client's own OPT. So every reply is
// compared with all that it should say, and with nothing else: what is known from the objects that the test created.
package pluginchain
