// Package netbind lets CoreDNS bind port 53 as a user other than root, in every pod that allows it, from an image that also starts in pods
// that allow nothing. Importing it is all; it does nothing where there is nothing to do. CoreDNS' own image marks its program with
// cap_net_bind_service=+ep. The e makes the kernel refuse to execute the program at all, with EPERM, where the container's bounding
// set lacks the capability: with `drop: [ALL]` and nothing added, as deploy/plugin/server has it. Ours is marked +p: the program starts
// everywhere, holds the capability as permitted where the pod adds NET_BIND_SERVICE, and makes it effective itself, here.
package netbind
