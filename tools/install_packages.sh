#!/usr/bin/env bash
# Installs the Debian packages of the named sections of packages.txt that are missing.
#   usage  tools/install_packages.sh build [test]
# Does nothing, and needs neither root nor a network, when all of them are there.
set -euo pipefail

list="$(dirname "$0")/../packages.txt"
missing=()
for section in "$@"; do
  packages="$(awk -v section="[$section]" '
    /^#/ || /^$/ {next} /^\[/ {inside = ($0 == section); next} inside' "$list")"
  if [ -z "$packages" ]; then
    echo "packages.txt has no section [$section]" >&2
    exit 2
  fi
  for package in $packages; do
    state="$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)"
    [ "$state" = installed ] || missing+=("$package")
  done
done
[ ${#missing[@]} -gt 0 ] || exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${root[@]}" apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --no-install-recommends "${missing[@]}"
