#!/usr/bin/env bash
# Makes a virtual environment with what the Python package is built and tested with.
#   usage  tools/python_venv.sh FOLDER
# Does nothing, and needs no network, when it is there as python/requirements*.txt want it. Where
# PyTorch cannot be had it is left out, which the tests bear.
set -euo pipefail

folder="$1"
root="$(cd "$(dirname "$0")/.." && pwd)"
wanted="$(python3 --version; cat "$root/python/requirements.txt" "$root/python/requirements-torch.txt")"
mark="$folder/.pleach_requirements"
[ "$(cat "$mark" 2>/dev/null || true)" != "$wanted" ] || exit 0

install() {
  "$folder/bin/python" -m pip --quiet --disable-pip-version-check install "$@" 2>&1 |
    { grep -v '^WARNING: Location' || true; }
}
echo "python: making $folder" >&2
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
install --requirement "$root/python/requirements.txt" >&2
echo "python: installing PyTorch" >&2
if ! log="$(install --requirement "$root/python/requirements-torch.txt")"; then
  echo "python: no PyTorch to be had, its tests are skipped: $(tail -n 1 <<<"$log")" >&2
  exit 0  # Not marked: the next time may have it.
fi
printf '%s\n' "$wanted" >"$mark"
