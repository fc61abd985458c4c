// Package crd holds the ServiceImport and ServiceExport CRDs as the mcs-api module in go.mod has them. After an upgrade of that
// module, `go generate ./deploy/crd` brings them here; the test of this package fails until then.
package crd

//go:generate go run generate.go
