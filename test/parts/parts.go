package main

// part is a part of CI.
type part struct {
	name string
	// group is the make target that runs the part.
	group string
	// module is the folder of the Go module in which tests are the packages to test.
	module string
	tests  []string
	rest   bool     // its tests are those of all packages of the module that are in no other part
	race   bool     // with the race detector: where goroutines of ours share memory. It costs five times the processor
	flags  []string // of go test
	// command is what bash runs instead of go test.
	command string
	// inputs are files and folders on which the result depends, beside what the tests import, and what all parts may read (shipped).
	inputs []string
	// nightly means that the part runs in every full run, and otherwise only if something has changed in its inputs, of which it
	// lists all: not the product, which other parts test.
	nightly bool
	servers int    // how many API servers its tests start at most: each takes a core for seconds, and tests share them
	covers  string // a part that need not run when this one has just passed
	alone   bool   // no other part runs at the same time
}

// product is what the programs in bin are built from. The Dockerfile has the version of CoreDNS, as the Makefile: a test in build/images
// compares them.
var product = []string{"plugin", "controller", "internal", "build/coredns.sh", "build/controller.sh", "build/coredns.Dockerfile", "build/netbind", "plugin.cfg.patch", "go.mod", "go.sum"}

// shipped are folders of files that users get, which many tests read.
var shipped = []string{"deploy", "corefile-examples"}

// with returns the inputs of the product, and more.
func with(more ...string) []string { return append(more, product...) }

// parts are in the order in which they begin: those that take longest are first.
var parts = []part{
	{name: "rules", servers: 7, group: "test", module: ".", tests: []string{"./test/rules/...", "./test/world/..."}, race: true, inputs: product},
	{name: "cli", servers: 14, group: "test", module: "cli", tests: []string{"./command", "./join", "./..."}, flags: []string{"-parallel=4"},
		inputs: with("docs", "LICENSE", "build/cli.sh", "build/cli-dist.sh", "build/kubectl_complete-multicluster")},
	{name: "controller", servers: 7, group: "test", module: ".", tests: []string{"./controller/peers", "./controller/reconcile", "./controller/apply"}, race: true},
	{name: "dns", servers: 1, group: "test", module: ".", tests: []string{"./test/dns"}, race: true, inputs: with("docs/results/questions.txt")},
	{name: "charts", servers: 9, group: "test", module: "deploy/charts", tests: []string{"./..."}, inputs: with("build", "docs/operations", "docs/pictures")},
	{name: "images", group: "test", module: "build/images", tests: []string{"./..."}, flags: []string{"-skip=^TestReproducible$"}, inputs: with("build", "cli", "CHANGELOG.md", ".github", "Makefile")},
	{name: "plugin", servers: 1, group: "test", module: ".", tests: []string{"./plugin/...", "./internal/reflector"}, race: true},
	// test/apiserver is compared with one, and with one that has controllers; stories with one, and with one of both families.
	{name: "simulation", servers: 4, group: "test", module: ".", tests: []string{"./test/apiserver", "./test/simulation"}},
	// Of two minutes, with other seeds each time. Two that fail are printed; a third one is a fault of the change.
	{name: "histories", group: "test", module: ".", tests: []string{"./test/simulation"}, flags: []string{"-run=^TestHistories$", "-v"},
		command: "go test -count=1 -vet=off -ldflags=-w -timeout=40m -v -run '^TestHistories$' ./test/simulation -for=2m -spare=2"},
	// Ten mutants, others each day: make mutants tries all.
	{name: "mutants", group: "test", module: ".", tests: []string{"./test/simulation/mutants"}, command: "go test -count=1 -vet=off -ldflags=-w -timeout=40m ./test/simulation/mutants -sample=10",
		inputs: with("test/simulation", "test/apiserver", "test/world", "docs/results/mutants.txt")},
	// Two of its tests have a network of their own, with two clusters each.
	{name: "kubeproxy", servers: 5, group: "test", module: ".", tests: []string{"./test/kubeproxy"}, inputs: product},
	{name: "e2e-parts", group: "test", module: ".", tests: []string{"./test/e2e/..."}, inputs: with("docs/e2e.md", "docs/install.md", "docs/operations/uninstall.md")},
	{name: "others", servers: 6, group: "test", module: ".", tests: []string{"./test/interop/...", "./test/monitoring/..."}, flags: []string{"-skip=^TestAlertsLive$"},
		inputs: with("docs/interop", "docs/recipes", "docs/operations")},
	{name: "deploy", servers: 4, group: "test", module: ".", tests: []string{"./deploy/...", "./controller"}},
	{name: "pure", group: "test", module: ".", rest: true},
	{name: "docs", group: "test", module: ".", tests: []string{"./test/docs"}, inputs: []string{"."}},

	{name: "e2e", group: "clusters", alone: true, covers: "e2e-cli", module: ".", tests: []string{"./test/e2e/..."}, command: "make e2e",
		inputs: with("Makefile", "build")},
	{name: "e2e-cli", group: "clusters", alone: true, command: `make e2e ARGS="--run 'TestReadme|TestVerify|TestReleaseIsUninstalled'"`,
		inputs: with("cli", "build/cli.sh", "test/e2e", "docs/install.md", "docs/operations/uninstall.md")},
	{name: "demo", servers: 2, group: "clusters", alone: true, command: "make demo ARGS=--once", inputs: with("Makefile", "test/kube", "test/clusters", "cli", "build")},

	{name: "compat", servers: 14, group: "nightly", nightly: true, alone: true, command: "make compat", inputs: []string{"go.mod", "test/kube/oldest", "build/compat.sh", "deploy/crd", "Makefile"}},
	{name: "karmada", servers: 4, group: "nightly", nightly: true, alone: true, command: "make needs-clusters coredns controller && CLUSTERS=1 go test -count=1 -v -vet=off -ldflags=-w -timeout=60m ./test/interop/karmada", inputs: []string{"test/interop/karmada", "test/interop/programs/karmada", "test/interop/beside", "corefile-examples/alias.Corefile"}},
	{name: "test-clusters", group: "nightly", nightly: true, alone: true, command: "make test-clusters", inputs: []string{"test/clusters"}},
	{name: "harness", servers: 12, group: "nightly", nightly: true, alone: true, module: ".", tests: []string{"./test/kube/...", "./test/clusters/..."}, inputs: []string{"test/kube", "test/clusters"}},
	{name: "reproducible", group: "nightly", nightly: true, alone: true, module: "build/images", tests: []string{"."}, flags: []string{"-run=^TestReproducible$"}, inputs: []string{"build", "go.mod", "cli/go.mod"}},
	{name: "alerts", servers: 4, group: "nightly", nightly: true, alone: true, module: ".", tests: []string{"./test/monitoring"}, flags: []string{"-run=^TestAlertsLive$"}, inputs: []string{"test/monitoring", "deploy/charts/multicluster/files/monitoring"}},
}
