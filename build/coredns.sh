#!/usr/bin/env bash
# coredns.sh VERSION OUTPUT [LINE]...: CoreDNS with all its stock plugins and ours, by CoreDNS' own way to add one: its source, a line
# in plugin.cfg, go generate, go build. The source comes through the Go module proxy; its copy lies in build/out. Each LINE, name:package,
# is one more plugin of this module, which comes before ours: for measurements. Then the copy is another one. build/netbind is added too.
set -euo pipefail
. "$(dirname "$0")/env.sh"
coredns=$1 output=$(realpath -m "$2")
shift 2
module=github.com/clusterset-dns/multicluster
source_dir=$root/build/out/coredns-$coredns
# A relative path: the program holds it, and an absolute one would make its bytes depend on the folder.
replace=$module=../../..
netbind='package main

import _ "github.com/clusterset-dns/multicluster/build/netbind"'
patched=$(cat "$root/plugin.cfg.patch"; printf '%s\n' "$replace" "$netbind" "$@")
[ $# = 0 ] || source_dir+=-with-$(printf '%s\n' "$@" | cut -d: -f1 | paste -sd-)
# One at a time: CI builds a release beside other parts, which use the same copy.
mkdir -p "$root/build/out"
if command -v flock >/dev/null; then
  exec 9>"$source_dir.lock"
  flock 9
fi

if [ "$patched" != "$(cat "$source_dir/.patched" 2>/dev/null)" ]; then
  echo "fetching CoreDNS $coredns"
  rm -rf "$source_dir"
  if ! answer=$(cd / && go mod download -json "github.com/coredns/coredns@$coredns"); then
    echo "CoreDNS $coredns is not to be had; want a version such as v1.15.0. The go command says:" >&2
    echo "$answer" | sed -n 's/^\t"Error": //p' >&2
    exit 1
  fi
  fetched=$(echo "$answer" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
  cp -r "$fetched" "$source_dir" && chmod -R u+w "$source_dir"
  cd "$source_dir"
  # Without the ceiling git would take this folder for a part of our own repository, and apply nothing.
  GIT_CEILING_DIRECTORIES=$root/build/out git apply "$root/plugin.cfg.patch"
  go mod edit "-require=$module@v0.0.0" "-replace=$replace"
  for line in "$@"; do sed -i "s|^multicluster:|$line\n&|" plugin.cfg; done
  echo "$netbind" >netbind.go
  mkdir .unbuilt && cp go.mod go.sum .unbuilt
  echo "$patched" >.patched
fi

echo "building CoreDNS $coredns with the line '$(grep '^multicluster:' "$source_dir/plugin.cfg")' (the first time 2 to 5 minutes on two cores)"
cd "$source_dir"
cp .unbuilt/* . # go get only raises versions: what an earlier commit required would stay
go get "$module@v0.0.0"
GOOS='' GOARCH='' GOFLAGS="$GOFLAGS -mod=mod" go generate coredns.go # -mod=mod: our requirements may be newer than CoreDNS' go.sum
go_build "CoreDNS $coredns" "$output" -mod=mod -ldflags "$strip -X github.com/coredns/coredns/coremain.GitCommit=$version -X $module/plugin.version=$version" .
# Another architecture's program does not run here; the lines that were compiled in are the same.
[ "$(go env GOOS GOARCH)" = "$(go env GOHOSTOS GOHOSTARCH)" ] || exit 0
# caddy 1.1.4 lists plugins without the prefix that older ones give them.
"$output" -plugins | grep -qxE ' *(dns\.)?multicluster' || { echo "$output does not have the plugin" >&2; exit 1; }
