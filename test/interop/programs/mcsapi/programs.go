//go:build tools

// Package mcsapi pins the programs that the tests of package interop run.
package mcsapi

import (
	_ "sigs.k8s.io/mcs-api/controllers/cmd/servicecontroller"
)
