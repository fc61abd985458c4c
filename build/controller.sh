#!/usr/bin/env bash
# controller.sh OUTPUT: the controller, for GOOS and GOARCH.
set -euo pipefail
. "$(dirname "$0")/env.sh"
output=$(realpath -m "$1")
cd "$root"
go_build multicluster-controller "$output" -ldflags "$strip -X main.version=$version" ./controller
