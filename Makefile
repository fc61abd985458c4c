# Everything that a person or CI does here is a target: `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

COREDNS_VERSION ?= v1.15.0
GOLANGCI_LINT_VERSION := v2.15.0
MODULE := github.com/clusterset-dns/multicluster
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COREDNS_SOURCE := build/out/coredns-$(COREDNS_VERSION)
FUZZTIME ?= 30s
ARGS ?=

.PHONY: help
help: ## List every target
	@grep -hE '^[a-z][a-z-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | while IFS=$$'\t' read -r name what; do printf '  %-12s %s\n' "$$name" "$$what"; done

.PHONY: build
build: coredns controller ## Build bin/coredns and bin/multicluster-controller

# CoreDNS' own way to add a plugin: its source, one line in plugin.cfg, go generate, go build. The copy lies in build/out, which has
# a go.mod of its own, so that the go command does not take it for a part of this module.
.PHONY: coredns
coredns: $(COREDNS_SOURCE)/.patched ## Build bin/coredns: CoreDNS $(COREDNS_VERSION) with all its plugins and ours (COREDNS_VERSION=v1.14.7 for another)
	@echo "building CoreDNS $(COREDNS_VERSION) (the first time about 2 minutes on two cores)"
	cd $(COREDNS_SOURCE) && go get $(MODULE)@v0.0.0
	cd $(COREDNS_SOURCE) && GOFLAGS="$$(go env GOFLAGS) -mod=mod" go generate coredns.go
	cd $(COREDNS_SOURCE) && CGO_ENABLED=0 go build -mod=mod -buildvcs=false -ldflags "-s -w -X github.com/coredns/coredns/coremain.GitCommit=$(VERSION)" -o $(CURDIR)/bin/coredns .
	@bin/coredns -plugins | grep -qxE ' *(dns\.)?multicluster' || { echo "bin/coredns does not have the plugin"; exit 1; }

$(COREDNS_SOURCE)/.patched: plugin.cfg.patch
	@echo "fetching CoreDNS $(COREDNS_VERSION)"
	@rm -rf $(COREDNS_SOURCE) && mkdir -p build/out
	@dir=$$(go mod download -json github.com/coredns/coredns@$(COREDNS_VERSION) | sed -n 's/^\t"Dir": "\(.*\)",*$$/\1/p'); \
	  [ -n "$$dir" ] || { echo "CoreDNS $(COREDNS_VERSION) is not to be had"; exit 1; }; \
	  cp -r "$$dir" $(COREDNS_SOURCE) && chmod -R u+w $(COREDNS_SOURCE)
	@cd $(COREDNS_SOURCE) && GIT_CEILING_DIRECTORIES="$(CURDIR)/build/out" git apply -v $(CURDIR)/plugin.cfg.patch
	@cd $(COREDNS_SOURCE) && go mod edit -require=$(MODULE)@v0.0.0 -replace=$(MODULE)=$(CURDIR)
	@touch $@

.PHONY: controller
controller: ## Build bin/multicluster-controller
	CGO_ENABLED=0 go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/multicluster-controller ./controller

.PHONY: programs
programs: ## Build what the tests run beside us: etcd, kube-apiserver and more, once, into the user's cache
	@go run ./test/realkube/build

.PHONY: test
test: build programs ## Unit, property, race and API server tests
	go test -race -timeout 20m ./...

.PHONY: fuzz
fuzz: ## Fuzz name and Corefile parsing, and the answers (FUZZTIME=30s each)
	go test -run '^$$' -fuzz '^FuzzParseName$$' -fuzztime $(FUZZTIME) ./plugin/index
	go test -run '^$$' -fuzz '^FuzzLookup$$' -fuzztime $(FUZZTIME) ./plugin/index
	go test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME) ./plugin

.PHONY: demo
demo: build programs ## Show the main job on real parts, then stay up to play with (ARGS=--once ends instead)
	@go run ./test/demo $(ARGS)

bin/golangci-lint-$(GOLANGCI_LINT_VERSION):
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION) (once, about 2 minutes)"
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv bin/tools/golangci-lint $@ && rmdir bin/tools

.PHONY: lint
lint: bin/golangci-lint-$(GOLANGCI_LINT_VERSION) ## Run golangci-lint, built from its module
	$< run ./...

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin build/out
