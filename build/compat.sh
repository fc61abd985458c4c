#!/usr/bin/env bash
# compat.sh VERSION...: compiles the plugin against other versions of CoreDNS than the one in go.mod, without their other plugins, which
# takes seconds instead of the minutes of a whole build.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for version in "$@"; do
  cp go.mod go.sum "$folder"
  go mod edit -replace="github.com/coredns/coredns=github.com/coredns/coredns@$version" "$folder/go.mod"
  go build -mod=mod -modfile="$folder/go.mod" ./plugin/...
  echo "the plugin compiles with CoreDNS $version"
done
