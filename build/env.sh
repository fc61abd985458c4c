# env.sh is sourced by the scripts that build programs: what makes a program's bytes depend on the commit and the Go release alone, not on
# the folder, the machine's settings or git. `make images` and the Dockerfiles pin the Go release; a plain `make build` takes yours.
# GOOS and GOARCH are the caller's. version is what the program says of itself: VERSION if given, as where there is no repository.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off
# No file system paths, and nothing of the repository: a clone, a worktree and a copy of the files differ in it. No tables for debuggers,
# which are stripped anyway and take a fifth of a compiler's time. The Makefile reads this line, and controlplane.Flags is the same.
export GOFLAGS="-trimpath -buildvcs=false -gcflags=all=-dwarf=false"
strip="-s -w"
# 12 digits: git's own choice depends on how much the clone holds.
version=${VERSION:-$(git -C "$root" describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)}
