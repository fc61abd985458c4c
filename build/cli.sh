#!/usr/bin/env bash
# cli.sh OUTPUT: kubectl-multicluster, for GOOS and GOARCH.
set -euo pipefail
. "$(dirname "$0")/env.sh"
output=$(realpath -m "$1")
cd "$root/cli"
go_build kubectl-multicluster "$output" -ldflags "$strip -X github.com/clusterset-dns/multicluster/cli/command.version=$version" .
