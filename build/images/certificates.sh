#!/usr/bin/env bash
# certificates.sh renews ca-certificates.crt from Debian's package: its folder mozilla, and nothing that this machine's owner has added to
# the machine's own bundle. The file lies in the repository so that an image is the same wherever it is built.
set -euo pipefail
cd "$(dirname "$0")"
output=$PWD/ca-certificates.crt
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
apt-get download -q -o APT::Sandbox::User=root ca-certificates
dpkg --extract ca-certificates_*.deb .
{
  echo "# Debian's ca-certificates $(dpkg --field ca-certificates_*.deb Version), by build/images/certificates.sh: Mozilla's list, under the MPL 2.0"
  LC_ALL=C
  cat usr/share/ca-certificates/mozilla/*.crt
} >"$output"
echo "$(grep -c BEGIN "$output") certificates in $output"
