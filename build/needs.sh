#!/usr/bin/env bash
# needs.sh looks for the programs that a make target needs beside Go, git and make, before the first of them is used:
#
#   build/needs.sh [-n] network|test|clusters
#
# As root it installs what is missing with apt-get. For others, without apt-get and with -n, it prints the one command to run, and exits with 1.
set -euo pipefail

# A program on the PATH or a file, and Debian's package that has it.
network="ip:iproute2 nft:nftables" # tests with a network of their own
test="$network gcc:gcc /usr/include/stdlib.h:libc6-dev musl-gcc:musl-tools" # the race detector, and Alpine's resolver
clusters="$network nsenter:util-linux mount:mount containerd:containerd runc:runc \
  /usr/lib/cni/bridge:containernetworking-plugins debootstrap:debootstrap" # whole clusters with pods

install=true
if [ "${1-}" = -n ]; then
  install=false
  shift
fi
case "${1-}" in
network | test | clusters) needs=${!1} ;;
*)
  echo "usage: build/needs.sh [-n] network|test|clusters" >&2
  exit 2
  ;;
esac
if [ "$(uname)" != Linux ]; then
  if [ "$1" = test ]; then exit; fi # its tests with a network of their own are for Linux
  echo "clusters run on Linux only" >&2
  exit 1
fi

PATH=$PATH:/usr/sbin:/sbin # which other users than root may lack
missing=()
for need in $needs; do
  program=${need%%:*}
  if ! command -v "$program" >/dev/null && ! [ -f "$program" ]; then missing+=("${need##*:}"); fi
done
if [ ${#missing[@]} -eq 0 ]; then exit; fi

if $install && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]}"
  apt-get update -q && apt-get install -y -q "${missing[@]}"
else
  echo "programs are missing: apt-get install -y ${missing[*]}" >&2
  exit 1
fi
