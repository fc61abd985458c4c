# Everything that a person or CI does here is a target: `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

COREDNS_VERSION ?= v1.15.0
GOLANGCI_LINT_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.8.0
HELM_DOCS_VERSION := v1.14.2
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)
# What results are of. Documents, which quote results, do not change them.
COMMIT = $$(git describe --always --abbrev=12)$$(git diff --quiet HEAD -- ':!docs' || echo -dirty)
FUZZTIME ?= 30s
# As build/env.sh builds the programs: what Go has compiled for them is not compiled again for tests and linters, which takes minutes.
export CGO_ENABLED := 0
export GOFLAGS := $(shell sed -n 's/^export GOFLAGS="\(.*\)"$$/\1/p' build/env.sh)
$(if $(GOFLAGS),,$(error build/env.sh has no line with GOFLAGS))
ARGS ?=

.PHONY: help
help: ## List all targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | while IFS=$$'\t' read -r name what; do printf '  %-16s %s\n' "$$name" "$$what"; done

.PHONY: build
build: coredns controller cli ## Build bin/coredns, bin/multicluster-controller and bin/kubectl-multicluster

.PHONY: coredns
coredns: ## Build bin/coredns, CoreDNS with the plugin (COREDNS_VERSION=v1.14.7)
	@VERSION="$(VERSION)" build/coredns.sh $(COREDNS_VERSION) bin/coredns

# Beside those of `make test`, which are COREDNS_VERSION and the newest Kubernetes.
COMPAT := kubernetes=oldest coredns=v1.12.3 coredns=v1.14.7

.PHONY: compat
compat: ## Run tests with the oldest supported Kubernetes, and with older CoreDNS
	@build/compat.sh bin/compat.txt $(COMPAT)

.PHONY: compat-results
compat-results: ## The same and with the newest, and update docs/compatibility.md
	@build/compat.sh docs/results/compatibility.txt kubernetes=newest $(COMPAT) coredns=$(COREDNS_VERSION)
	@go run ./test/docs

.PHONY: controller
controller: ## Build bin/multicluster-controller
	@VERSION="$(VERSION)" build/controller.sh bin/multicluster-controller

.PHONY: cli
cli: ## Build bin/kubectl-multicluster, the plugin of kubectl
	@VERSION="$(VERSION)" build/cli.sh bin/kubectl-multicluster
	@install -m 755 build/kubectl_complete-multicluster bin/

.PHONY: cli-dist
cli-dist: ## Build bin/cli: archives of the plugin for three systems
	@VERSION="$(VERSION)" build/cli-dist.sh bin/cli

# The Go release that the images are made with, in one place for both ways to make them.
IMAGES_GO := $(shell sed -n 's/^FROM .*golang:\([0-9.]*\) AS build$$/go\1/p' build/controller.Dockerfile)
ARCH ?=

.PHONY: bin/make-images
bin/make-images:
	@GOTOOLCHAIN=$(IMAGES_GO) go build -C build/images -o $(CURDIR)/$@ .

.PHONY: images
images: bin/make-images ## Build the images as archives in bin/images, without Docker (ARCH="amd64 arm64")
	@GOTOOLCHAIN=$(IMAGES_GO) $< -coredns $(COREDNS_VERSION) -version "$(VERSION)" $(ARCH)

REGISTRY ?=
TAG ?=

.PHONY: push
push: ## Build both images for amd64 and arm64, and push them (REGISTRY= TAG=)
	@go build -C build/images -o $(CURDIR)/bin/push-images ./push
	@bin/push-images -check -registry "$(REGISTRY)" -tag "$(TAG)"
	@$(MAKE) --no-print-directory images ARCH="amd64 arm64" VERSION="$(TAG)"
	@bin/push-images -registry "$(REGISTRY)" -tag "$(TAG)"

.PHONY: release-dry-run
release-dry-run: bin/make-images ## Make all files of a release in bin/release (VERSION=v0.0.0-dry-run)
	@go build -C build/images -o $(CURDIR)/bin/make-release ./release
	@GOTOOLCHAIN=$(IMAGES_GO) bin/make-release -version "$(VERSION)" -coredns $(COREDNS_VERSION) \
	  -registry "$(or $(REGISTRY),registry.invalid/clusterset-dns)" $(or $(ARCH),amd64 arm64)
	@cat bin/release/checksums.txt

.PHONY: programs
programs: ## Build etcd, kube-apiserver, Prometheus and more for the tests, once
	@go run ./test/kube/build
	@go run ./test/monitoring/programs

.PHONY: needs-test needs-clusters
needs-test needs-clusters: needs-%:
	@build/needs.sh $*

# What it consists of is in test/parts/parts.go. A part whose inputs have passed on this machine is not run again; CI_FULL=1 runs all.
.PHONY: test
test: needs-test programs build bin/govulncheck-$(GOVULNCHECK_VERSION) ## Run all tests except those of whole clusters (make e2e)
	@BUILT=1 go run ./test/parts test

.PHONY: check
check: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) ## Lint and test what has changed, without API servers: before each commit
	@go run ./test/parts -lint $< check

.PHONY: ci-full
ci-full: ## Run all parts of CI in their full form, as each night (needs root; hours)
	@CI_FULL=1 .ci/run
	@$(call parts,ci-full)

# What .ci/run took, for CONTRIBUTING.md.
parts = { echo "$$(nproc) cores, $$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $$(go version | cut -d' ' -f3,4), $(COMMIT)"; echo; go run ./test/parts report; } >docs/results/$(1).txt; go run ./test/docs

.PHONY: ci-results
ci-results: ## Copy what the parts of the last .ci/run took into CONTRIBUTING.md
	@$(call parts,ci)

.PHONY: broken-rules
broken-rules: programs ## Break rules of the product, one at a time, to see that a test finds each (an hour)
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT), and the seconds that the test took"; echo; go run ./test/broken; } | tee docs/results/broken-rules.txt
	@go run ./test/docs

.PHONY: fuzz
fuzz: ## Fuzz names, Corefiles, answers and transfers (FUZZTIME=30s for each)
	@for target in index.FuzzParseName index.FuzzLookup index.FuzzTransfer .FuzzParse .FuzzServeDNS .FuzzTransfer; do \
	  go test -run '^$$' -fuzz "^$${target#*.}\$$" -fuzztime $(FUZZTIME) ./plugin/$${target%%.*}; done

.PHONY: simulate
simulate: ## Play random histories of whole clustersets in virtual time (FOR=10m, or SEED=1234 for one)
	@go test -count=1 -vet=off -ldflags=-w -timeout 0 -v -run '^TestHistories$$' ./test/simulation $(if $(SEED),-seed $(SEED),-for $(or $(FOR),10m)) | grep -v '^==='

.PHONY: simulate-record
simulate-record: ## Play random histories for an hour, alone on the machine, and record how many, and what they judged (FOR=1h)
	@mkdir -p bin
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT)"; echo; \
	  $(MAKE) --no-print-directory simulate FOR=$(or $(FOR),1h) | tee bin/simulation.txt | sed -n '/ histories of /,/ was each /{s/^.*_test.go:[0-9]*: //;s/^ *//;p}'; } >docs/results/simulation.txt
	@cat docs/results/simulation.txt

.PHONY: exhaustive
exhaustive: ## Play all orders of events of the small pure machines, more than ten million events (five minutes)
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT)"; echo; \
	  for of in 'datapath -depth 12' preference plan; do \
	    go test -count=1 -vet=off -v -run EveryOrderOf ./controller/$$of || exit; done | \
	    sed -nE 's/^ +exhaustive_test.go:[0-9]+: (.*)/    \1/p;s/^=== RUN +(.*)/\1/p;s/^--- FAIL.*/&/p'; } >docs/results/exhaustive.txt
	@cat docs/results/exhaustive.txt

.PHONY: mutants
mutants: ## Play stories and histories with small wrong versions of the product, to see that a judge finds each (an hour; ARGS=NAME or a part)
	@go run ./test/simulation/mutants $(if $(ARGS),$(ARGS),-write "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT)")
	@go run ./test/docs

.PHONY: bench
bench: bench-ips bench-clusterset bench-join bench-server bench-servedns ## Run all benchmarks (about an hour)

.PHONY: bench-ips
bench-ips: programs ## Measure the time from an import's creation to its filled ips
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT), everything on one machine"; \
	  go test -run '^$$' -bench '^BenchmarkIPsFilled$$' -benchtime 200x ./controller/reconcile | grep -E '^(cpu|Benchmark)'; } | tee docs/results/ips-filled.txt

.PHONY: bench-clusterset
bench-clusterset: build programs ## Measure delays, first sync and memory of a clusterset (half an hour)
	@go run ./bench/clusterset $(ARGS)

.PHONY: bench-100
bench-100: build programs ## Measure a controller with 99 simulated peers (ARGS='--services 50 --shared 40')
	@go run ./bench/clusterset many --shared 400 $(ARGS)

.PHONY: bench-scale
bench-scale: build programs ## Measure one controller with more and more names (an hour)
	@for size in 10:500 30:500 100:200; do clusters=$${size%:*}; \
	  go run ./bench/clusterset many --peers $$((clusters - 1)) --services $${size#*:} --idle 1m --out docs/results/many-$$clusters.txt $(ARGS) || exit 1; done

.PHONY: bench-join
bench-join: programs ## Measure join --mesh of twelve clusters, a second join, and status
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT), everything on one machine"; \
	  cd cli && go test -run '^$$' -bench '^BenchmarkMesh$$' -benchtime 1x -timeout 20m ./join | grep -E '^(cpu|Benchmark)'; } | tee docs/results/join.txt

.PHONY: bench-server
bench-server: programs ## Measure CoreDNS with this plugin, the in-tree one and others (ARGS=--quick)
	@build/coredns.sh $(COREDNS_VERSION) bin/coredns-bench readymade:github.com/clusterset-dns/multicluster/bench/server/readymade
	@go run ./bench/server $(ARGS)

.PHONY: bench-servedns
bench-servedns: programs ## Measure ServeDNS alone, of this plugin and the in-tree one
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT), everything in one process; medians of 6 (benchstat -col /plugin docs/results/servedns.bench)"; \
	  go test -run '^$$' -bench '^BenchmarkServeDNS$$' -benchmem -count 6 -timeout 60m ./bench/servedns | tee docs/results/servedns.bench | go run ./bench/servedns; } | tee docs/results/servedns.txt

.PHONY: soak
soak: coredns programs ## Check CoreDNS' answers under changes and failures (10 minutes; ARGS='--for 1m')
	@go run ./bench/soak $(ARGS)

TOKENS ?= 30m

.PHONY: test-tokens
test-tokens: controller programs ## Renew the tokens of a peer in real time (TOKENS=30m)
	@{ echo "$$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT), everything on one machine"; \
	  TOKENS=$(TOKENS) go test -count=1 -v -vet=off -timeout 90m -run '^TestTokensRenewed$$' ./test/rules | sed -un 's/^ *tokens_test.go:[0-9]*: //p'; } | tee docs/results/tokens.txt

.PHONY: questions
questions: coredns programs ## Count the questions of a pod for each way to find imports
	@QUESTIONS=write go test -count=1 -run '^TestQuestions$$' ./test/dns

.PHONY: readme
readme: build programs bench questions ## Run the demo and all benchmarks, and update the figures of the documents
	@go run ./test/clusters/demo --once | tee docs/results/demo.txt
	@$(MAKE) plots
	@go run ./test/docs

.PHONY: screens
screens: build programs ## Draw the screens of docs/cli.md, by a run of the plugin
	@cd cli && SCREENS=write go test -count=1 -run '^TestScreens$$' ./command

.PHONY: dashboard-data
dashboard-data: build programs ## Record what the dashboard shows of a run with faults, and draw it
	@DASHBOARD=write go test -count=1 -vet=off -run '^TestAlertsLive$$' ./test/monitoring
	@$(MAKE) plots

.PHONY: plots
plots: ## Draw the pictures of the documents from docs/results
	@cd test/docs/plots && go run .

.PHONY: clusters-up
clusters-up: needs-clusters ## Start two clusters with pods, c1 and c2, on this machine (needs root)
	@go run ./test/clusters/run up c1 1
	@go run ./test/clusters/run up c2 2

.PHONY: test-clusters
test-clusters: needs-clusters ## Test the clusters themselves (needs root; two minutes)
	CLUSTERS=1 go test -count=1 -vet=off -timeout 20m ./test/clusters

.PHONY: clusters-down
clusters-down: ## Stop the clusters c1 and c2, and delete everything of them
	@go run ./test/clusters/run down c1 c2

.PHONY: e2e
e2e: $(if $(KUBECONFIGS),,needs-clusters) ## Run the end-to-end tests in three clusters (needs root; 20 minutes; docs/e2e.md)
	@go run ./test/e2e/run $(ARGS)

.PHONY: e2e-results
e2e-results: $(if $(KUBECONFIGS),,needs-clusters) ## Run the end-to-end tests, and update the figures of the documents
	@go run ./test/e2e/run --results docs/results/e2e.txt $(ARGS)
	@go run ./test/docs

.PHONY: e2e-upgrade
e2e-upgrade: needs-clusters ## Upgrade clusters from another commit under load (needs root; FROM=<commit>)
	@go run ./test/e2e/run --from "$(FROM)" --run '^TestUpgrade$$' --results docs/results/upgrade.txt

SUITE ?=

.PHONY: conformance
conformance: needs-clusters ## Run the public conformance suite (needs root; SUITE=<checkout of mcs-api>)
	@[ -n "$(SUITE)" ] || { echo "conformance: want SUITE=<checkout of kubernetes-sigs/mcs-api>, whose folder conformance has the suite" >&2; exit 2; }
	@go run ./test/e2e/run --clusters 2 --suite "$(SUITE)" --run '^TestConformance$$' --results bin/conformance.txt $(ARGS)
	@ls bin/conformance/report*

# Tests with another project's real programs: a folder of test/interop, and variables of the environment. docs/interop quotes the results.
define interop
@$(2) go test -count=1 -v -vet=off -ldflags=-w -timeout 60m ./test/interop/$(1) 2>&1 | tee bin/interop-$(1).log
@{ echo "$$(date -u +%F), $$(nproc) cores, $$(go version | cut -d' ' -f3,4), $(COMMIT)"; \
	  grep -E '^ *--- ' bin/interop-$(1).log; } >docs/results/interop-$(1).txt
@go run ./test/docs
endef

.PHONY: e2e-karmada
e2e-karmada: needs-clusters coredns controller ## Test with a real Karmada (needs root; 7 minutes to build it, once)
	$(call interop,karmada,CLUSTERS=1)

.PHONY: e2e-envoygateway
e2e-envoygateway: programs controller ## Route from a real Envoy Gateway (12 minutes to build it, once)
	$(call interop,envoygateway,INTEROP=1)

.PHONY: e2e-mcsapi
e2e-mcsapi: programs coredns controller ## Test beside the reference controllers (5 minutes to build them, once)
	$(call interop,mcsapi,INTEROP=1)

.PHONY: e2e-cilium
e2e-cilium: programs coredns controller ## Test beside a real Cilium, without nodes (14 minutes to build it, once)
	$(call interop,cilium,INTEROP=1)

.PHONY: demo
demo: build ## Show two joined clusters on loopback, and stay up (ARGS=--once ends instead)
	@go run ./test/clusters/demo $(ARGS)

bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION) (once, about 2 minutes)"
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv bin/tools/golangci-lint $@ && rm -r bin/tools

bin/helm-docs-$(HELM_DOCS_VERSION):
	@GOBIN=$(CURDIR)/bin/docs go install github.com/norwoodj/helm-docs/cmd/helm-docs@$(HELM_DOCS_VERSION)
	@mv bin/docs/helm-docs $@ && rm -r bin/docs

chart_readme = bin/helm-docs-$(HELM_DOCS_VERSION) --chart-search-root deploy/charts/multicluster --sort-values-order file --log-level warning

.PHONY: chart-readme
chart-readme: bin/helm-docs-$(HELM_DOCS_VERSION) ## Write the README of the chart, from its values
	@$(chart_readme)

.PHONY: lint
lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) bin/helm-docs-$(HELM_DOCS_VERSION) ## Run the linters, and compare the README of the chart
	@diff <($(chart_readme) --dry-run) deploy/charts/multicluster/README.md || { echo "the chart's README differs from its values: run make chart-readme"; exit 1; }
	$< run ./...
	cd build/images && $(CURDIR)/$< run ./...
	cd cli && $(CURDIR)/$< run ./...
	cd deploy/charts && $(CURDIR)/$< run ./...
	cd test/docs/plots && $(CURDIR)/$< run ./...

bin/govulncheck-$(GOVULNCHECK_VERSION):
	@GOBIN=$(CURDIR)/bin/vuln go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv bin/vuln/govulncheck $@ && rm -r bin/vuln

# With the release of Go that the images are made with, so that what is checked is what ships.
.PHONY: vuln
vuln: export GOTOOLCHAIN := $(IMAGES_GO)
vuln: build bin/govulncheck-$(GOVULNCHECK_VERSION) ## Look for known vulnerabilities (GOVULNDB=file:///... for a copy of the database)
	@go run ./build/vuln -program bin/govulncheck-$(GOVULNCHECK_VERSION) $(ARGS) . build/images cli deploy/charts test/docs/plots bin/coredns bin/multicluster-controller bin/kubectl-multicluster

.PHONY: clean
clean: ## Delete what was built in this folder
	rm -rf bin build/out
