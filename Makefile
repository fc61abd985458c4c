# Everything that a person or CI does here is a target: `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

COREDNS_VERSION ?= v1.15.0
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)
FUZZTIME ?= 30s
# As build/env.sh builds the programs: what Go has compiled for them is not compiled again for tests and linters, which takes minutes.
export CGO_ENABLED := 0
export GOFLAGS := $(shell sed -n 's/^export GOFLAGS="\(.*\)"$$/\1/p' build/env.sh)
$(if $(GOFLAGS),,$(error build/env.sh has no line with GOFLAGS))
ARGS ?=

.PHONY: help
help: ## List every target
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | while IFS=$$'\t' read -r name what; do printf '  %-12s %s\n' "$$name" "$$what"; done

.PHONY: build
build: coredns controller ## Build bin/coredns and bin/multicluster-controller

.PHONY: coredns
coredns: ## Build bin/coredns: CoreDNS with all its plugins and ours (COREDNS_VERSION=v1.14.7 for another)
	@VERSION="$(VERSION)" build/coredns.sh $(COREDNS_VERSION) bin/coredns

.PHONY: compat
compat: ## Compile the plugin against the oldest CoreDNS that it supports, and others
	@build/compat.sh v1.12.3 v1.14.7

.PHONY: controller
controller: ## Build bin/multicluster-controller
	@VERSION="$(VERSION)" build/controller.sh bin/multicluster-controller

# The Go release that the images are made with, in one place for both ways to make them.
IMAGES_GO := $(shell sed -n 's/^FROM .*golang:\([0-9.]*\) AS build$$/go\1/p' build/controller.Dockerfile)
ARCH ?=

.PHONY: images
images: ## Make the archives of the images in bin/images, without Docker (ARCH="amd64 arm64" for other machines than this one)
	@GOTOOLCHAIN=$(IMAGES_GO) go build -C build/images -o $(CURDIR)/bin/make-images . && \
	  GOTOOLCHAIN=$(IMAGES_GO) bin/make-images -coredns $(COREDNS_VERSION) -version "$(VERSION)" $(ARCH)

.PHONY: programs
programs: ## Build what the tests run beside us: etcd, kube-apiserver and more, once, into the user's cache
	@go run ./test/controlplane/build

# How many packages' tests run at once: most of their time they wait for API servers, not for a core.
PACKAGES := $(shell cores=$$(nproc); echo $$((cores > 4 ? cores : 4)))

.PHONY: needs-test needs-clusters
needs-test needs-clusters: needs-%:
	@build/needs.sh $*

# The race detector needs cgo; vet is a part of `make lint`; what only debuggers read (-w) takes a linker a third of its time.
.PHONY: test
test: needs-test build programs bin/govulncheck-$(GOVULNCHECK_VERSION) ## Unit, property, race and API server tests
	CGO_ENABLED=1 go test -race -vet=off -ldflags=-w -timeout 20m -p $(PACKAGES) ./...
	cd build/images && CGO_ENABLED=1 go test -race -vet=off -ldflags=-w -timeout 20m ./... # modules of their own, as users of the plugin need nothing of them
	cd deploy/charts && go test -count=1 -vet=off -timeout 20m ./... # Go does not see which files Helm reads

.PHONY: check
check: lint ## What to run before each commit: lint, and the tests that need no API server (two minutes)
	go test -short -vet=off ./...
	cd build/images && go test -short -vet=off ./...

.PHONY: fuzz
fuzz: ## Fuzz name and Corefile parsing, the answers and transfers (FUZZTIME=30s each)
	@for target in index.FuzzParseName index.FuzzLookup index.FuzzTransfer .FuzzParse .FuzzServeDNS .FuzzTransfer; do \
	  go test -run '^$$' -fuzz "^$${target#*.}\$$" -fuzztime $(FUZZTIME) ./plugin/$${target%%.*}; done

.PHONY: bench
bench: bench-ips bench-clusterset bench-server bench-servedns ## Measure everything, side by side where there is something to compare with (about an hour)

.PHONY: bench-ips
bench-ips: programs ## Measure the time from an import's creation to its filled ips (writes docs/results/ips-filled.txt)
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $$(git describe --always), everything on one machine"; \
	  go test -run '^$$' -bench '^BenchmarkIPsFilled$$' -benchtime 200x ./controller/reconcile | grep -E '^(cpu|Benchmark)'; } | tee docs/results/ips-filled.txt

.PHONY: bench-clusterset
bench-clusterset: build programs ## Measure a clusterset: time to other clusters, first sync, memory, writes (about half an hour; writes docs/results/clusterset.txt)
	@go run ./test/clusterset/bench $(ARGS)

.PHONY: bench-server
bench-server: programs ## Measure CoreDNS with our plugin, the in-tree one and others (writes docs/results/bench.txt; ARGS=--quick)
	@build/coredns.sh $(COREDNS_VERSION) bin/coredns-bench readymade:github.com/clusterset-dns/multicluster/test/perf/bench/readymade
	@go run ./test/perf/bench $(ARGS)

.PHONY: bench-servedns
bench-servedns: programs ## Measure ServeDNS alone, ours beside the in-tree plugin (writes docs/results/servedns.txt)
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $$(git describe --always), everything in one process; medians of 6 (benchstat -col /plugin docs/results/servedns.bench)"; \
	  go test -run '^$$' -bench '^BenchmarkServeDNS$$' -benchmem -count 6 -timeout 60m ./test/perf/servedns | tee docs/results/servedns.bench | go run ./test/perf/servedns; } | tee docs/results/servedns.txt

.PHONY: soak
soak: coredns programs ## Keep CoreDNS under changes, questions and outages, and check each answer (10 minutes; writes docs/results/soak.txt; ARGS='--for 1m')
	@go run ./test/perf/soak $(ARGS)

.PHONY: questions
questions: coredns programs ## Count the questions that each way to imports costs a pod (writes docs/results/questions.txt)
	@QUESTIONS=write go test -count=1 -run '^TestQuestions$$' ./test/dns/corefile

.PHONY: readme
readme: build coredns-demo programs bench questions ## Run the demo and the benchmarks, and show in README.md what they wrote
	@go run ./test/clusters/demo --once | tee docs/results/demo.txt
	@$(MAKE) -s help > docs/results/help.txt
	@go run ./test/docs

.PHONY: clusters-up
clusters-up: needs-clusters ## Start two real clusters with pods, c1 and c2, on this machine (root; Debian's containerd and more: it says what)
	@go run ./test/clusters/run up c1 1
	@go run ./test/clusters/run up c2 2

.PHONY: test-clusters
test-clusters: needs-clusters ## Test those clusters (root; about a minute and a half)
	CLUSTERS=1 go test -count=1 -vet=off -timeout 20m ./test/clusters

.PHONY: clusters-down
clusters-down: ## End the clusters c1 and c2 and remove all that is of them
	@go run ./test/clusters/run down c1 c2

.PHONY: e2e
e2e: $(if $(KUBECONFIGS),,needs-clusters) controller ## Start real clusters, install us as users do, and try it all in pods (root; about 15 minutes, and more the first time; KUBECONFIGS=a:b for clusters of yours, whose DNS it replaces; E2E_LOAD_FOR=1m for less load; ARGS=--keep)
	@go run ./test/e2e/run $(ARGS)

.PHONY: e2e-results
e2e-results: $(if $(KUBECONFIGS),,needs-clusters) controller ## Do that, and show in README.md what was measured (writes docs/results/e2e.txt)
	@go run ./test/e2e/run --results docs/results/e2e.txt $(ARGS)
	@go run ./test/docs

.PHONY: coredns-demo
coredns-demo: controller
	@. build/env.sh && go_build "CoreDNS for the demo" bin/coredns-demo ./test/clusters/demo/coredns

.PHONY: demo
demo: controller coredns-demo ## Show the main job on real parts, then stay up to play with (ARGS=--once ends instead)
	@go run ./test/clusters/demo $(ARGS)

bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION) (once, about 2 minutes)"
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv bin/tools/golangci-lint $@ && rm -r bin/tools

.PHONY: lint
lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) ## Run golangci-lint, built from its module
	$< run ./...
	cd build/images && $(CURDIR)/$< run ./...
	cd deploy/charts && $(CURDIR)/$< run ./...

bin/govulncheck-$(GOVULNCHECK_VERSION):
	@GOBIN=$(CURDIR)/bin/vuln go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv bin/vuln/govulncheck $@ && rm -r bin/vuln

.PHONY: vuln
vuln: build bin/govulncheck-$(GOVULNCHECK_VERSION) ## Look for known vulnerabilities in what is built here (GOVULNDB=file:///... for a copy of the database; ARGS=-required)
	@go run ./build/vuln -program bin/govulncheck-$(GOVULNCHECK_VERSION) $(ARGS) . build/images deploy/charts bin/coredns bin/multicluster-controller

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin build/out
