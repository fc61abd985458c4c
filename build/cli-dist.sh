#!/usr/bin/env bash
# cli-dist.sh FOLDER: an archive of kubectl-multicluster for each system, their checksums, and the
# manifest for krew. The archives of one commit are the same on every machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
dist=$(realpath -m "$1")
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
when=$(git -C "$root" log -1 --format=%ct)

# pack OS ARCH makes one archive: GNU tar, as its options make the bytes depend on the content alone.
pack() {
  local folder=$work/$1-$2 program=kubectl-multicluster
  [ "$1" != windows ] || program+=.exe
  mkdir "$folder"
  GOOS=$1 GOARCH=$2 VERSION=$version "$here/cli.sh" "$folder/$program"
  install -m 644 "$root/LICENSE" "$folder/"
  [ "$1" = windows ] || install -m 755 "$here/kubectl_complete-multicluster" "$folder/"
  tar -C "$folder" --sort=name --mtime="@$when" --owner=0 --group=0 --numeric-owner --mode=u+w,go-w -cf - . | gzip -n9 >"$dist/kubectl-multicluster_$1_$2.tar.gz"
}

systems=${SYSTEMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
for system in $systems; do pack "${system%/*}" "${system#*/}"; done
(cd "$dist" && sha256sum -- *.tar.gz >checksums.txt)

# krew wants a version with three numbers. Between two releases the manifest is only for tests.
released=$version
[[ $released =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || released=v0.0.0
{
  cat <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: multicluster
spec:
  version: $released
  homepage: https://github.com/clusterset-dns/multicluster
  shortDescription: Join clusters and explain multi-cluster DNS names
  description: |
    Joins clusters into a clusterset (KEP-1645), shows their state, and explains why a name such as
    foo.default.svc.clusterset.local does not work.
  platforms:
MANIFEST
  for system in $systems; do
    os=${system%/*} arch=${system#*/} program=kubectl-multicluster
    archive=kubectl-multicluster_${os}_$arch.tar.gz
    [ "$os" != windows ] || program+=.exe
    cat <<MANIFEST
    - selector:
        matchLabels:
          os: $os
          arch: $arch
      uri: https://github.com/clusterset-dns/multicluster/releases/download/$released/$archive
      sha256: $(sha256sum "$dist/$archive" | cut -d' ' -f1)
      bin: $program
MANIFEST
  done
} >"$dist/multicluster.yaml"
echo "$dist:"
cat "$dist/checksums.txt"
