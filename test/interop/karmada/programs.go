// Package karmada tests this project in member clusters of a real Karmada control plane. README.md of package interop describes how.
package karmada

import "github.com/clusterset-dns/multicluster/test/kube"

// Programs are Karmada's, of the version that test/interop/programs/karmada pins.
var Programs = kube.Module{
	Dir:      "test/interop/programs/karmada",
	Requires: "github.com/karmada-io/karmada",
	Packages: map[string]string{
		"controller-manager": "github.com/karmada-io/karmada/cmd/controller-manager",
		"scheduler":          "github.com/karmada-io/karmada/cmd/scheduler",
		"webhook":            "github.com/karmada-io/karmada/cmd/webhook",
	},
	Usual: "about 7 minutes",
}
