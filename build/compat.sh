#!/usr/bin/env bash
# compat.sh OUTPUT PROGRAM=VERSION...: runs tests with other versions than those of `make test`, and writes a table of them:
#
#   coredns=v1.12.3              the plugin's answers and transfers. Without CoreDNS' other plugins, that takes seconds
#   kubernetes=oldest|newest     what speaks to an API server: objects and rights, the chart, the plugin's watch, the controller's scenarios
#
# The module test/kube/oldest has the version of the oldest kube-apiserver.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$(realpath -m "$1")
shift
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# tests FOLDER ARG... runs go test there, and adds the passed tests to passed. CI does so at the lowest priority, beside other tests: hence
# the time.
tests() {
  local where=$1
  shift
  if ! (cd "$where" && go test -count=1 -v -vet=off -ldflags=-w -timeout 30m "$@") >"$folder/log" 2>&1; then
    grep -vE '^(=== |    --- PASS|--- PASS|ok )' "$folder/log" >&2
    return 1
  fi
  passed=$((passed + $(grep -c '^--- PASS' "$folder/log")))
}

coredns() {
  cp go.mod go.sum "$folder"
  go mod edit -replace="github.com/coredns/coredns=github.com/coredns/coredns@$1" "$folder/go.mod"
  go build -mod=mod -modfile="$folder/go.mod" ./plugin/...
  tests . -short -mod=mod -modfile="$folder/go.mod" ./plugin ./plugin/index
  version=$1
}

kubernetes() {
  local module=test/kube/programs
  export OLDEST_KUBERNETES=
  if [ "$1" = oldest ]; then module=test/kube/oldest OLDEST_KUBERNETES=1; fi
  version=$(sed -n 's|.*k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' $module/go.mod)
  go run ./test/kube/build kube-apiserver # without the deadline that a test has for it
  tests . ./deploy ./deploy/crd ./plugin/watch
  tests . -run '^(TestBadImportsBesideGoodOnes|TestRoleHasNothingSpareAndNothingMissing|TestTwoUpdatesAtOnceLoseNothing)$' ./controller/reconcile
  tests deploy/charts -run '^(TestReleaseThroughAllModes|TestCRDsAreUpgradedAndStay)$' .
}

mkdir -p "$(dirname "$output")"
{
  echo "$(go version | cut -d' ' -f3,4), $(git describe --always --dirty --abbrev=12)"
  echo
  printf '%-12s %-10s %s\n' program version 'tests passed'
} >"$output.part"
for what in "$@"; do
  passed=0
  "${what%%=*}" "${what#*=}"
  printf '%-12s %-10s %s\n' "${what%%=*}" "$version" "$passed" | tee -a "$output.part"
done
mv "$output.part" "$output"
