# env.sh is sourced by the scripts that build programs: what makes a program's bytes depend on the commit and the Go release alone, not on
# the folder, the machine's settings or git. `make images` and the Dockerfiles pin the Go release; a plain `make build` takes yours.
# GOOS and GOARCH are the caller's. version is what the program says of itself: VERSION if given, as where there is no repository.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off
# No file system paths, and nothing of the repository: a clone, a worktree and a copy of the files differ in it. No tables for debuggers,
# which are stripped anyway and take a fifth of a compiler's time. The Makefile reads this line, and kube.Flags is the same.
export GOFLAGS="-trimpath -buildvcs=false -gcflags=all=-dwarf=false"
strip="-s -w"
# 12 digits: git's own choice depends on how much the clone holds.
version=${VERSION:-$(git -C "$root" describe --tags --always --dirty --abbrev=12 2>/dev/null || echo unknown)}

# go_build NAME OUTPUT ARG...: go build -o OUTPUT ARG..., and how far it is: on one line of a terminal, else a line every 20 seconds.
go_build() {
  local name=$1 output=$2 all line n=0 next=$((SECONDS + 2)) status=0
  shift 2
  all=$(go list -deps -f '{{if .Stale}}.{{end}}' "$@" | grep -c . || true)
  go build -v -o "$output" "$@" 2>&1 | while IFS= read -r line; do
    if [[ ! $line =~ ^[[:alnum:]._~/-]+$ ]]; then # not a package, but an error
      echo "$line" >&2
    elif n=$((n + 1)) && [ -t 1 ]; then
      printf '\rbuilding %s: %s of %s packages' "$name" "$n" "$all"
    elif [ $SECONDS -ge $next ]; then
      echo "building $name: $n of $all packages"
      next=$((SECONDS + 20))
    fi
  done || status=$?
  if [ -t 1 ] && [ "$all" -gt 0 ]; then echo; fi
  return $status
}
