#!/usr/bin/env bash
# controller.sh OUTPUT: the controller, for GOOS and GOARCH.
set -euo pipefail
. "$(dirname "$0")/env.sh"
output=$(realpath -m "$1")
cd "$root"
go build -ldflags "$strip -X main.version=$version" -o "$output" ./controller
