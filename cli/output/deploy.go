package output

import "github.com/clusterset-dns/multicluster/internal/mcs"

// Deploy returns the address of a folder of deploy/ for `kubectl apply -k`, so that a command works
// without a checkout of the project.
func Deploy(folder string) string { return mcs.Deploy(folder) }
