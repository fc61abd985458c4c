// Package mcsapi runs this project beside the reference controllers of kubernetes-sigs/mcs-api, which give each ServiceImport a derived
// Service. `make e2e-mcsapi` runs it.
package mcsapi
