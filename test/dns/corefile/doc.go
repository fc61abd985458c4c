// Package corefile starts the real CoreDNS, as `make coredns` left it in bin, with every Corefile that this project shows to its
// users, unchanged, and asks it questions over UDP and TCP.
//
// Each test runs in a network and with mounts of its own (controlplane.InNetNS), so that CoreDNS finds what it finds in a pod: port 53,
// its service account under /var/run/secrets, and an /etc/resolv.conf that leads to an upstream server of the test's.
package corefile
