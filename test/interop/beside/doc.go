// Package beside compares this project with another implementation of the Multi-Cluster Services API that runs on the same cluster.
//
//	Servers   two CoreDNS that read the same objects: one with our plugin, one with the in-tree one
//	Writes    counts the writes to the objects of a namespace, so that a test sees two writers that overwrite each other
package beside
