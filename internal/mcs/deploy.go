package mcs

// Deploy returns the address of a folder of deploy/ for `kubectl apply -k`, so that a printed command works
// without a checkout of the project.
func Deploy(folder string) string {
	return "https://github.com/clusterset-dns/multicluster//deploy/" + folder + "?ref=main"
}
