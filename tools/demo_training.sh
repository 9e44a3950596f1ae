#!/usr/bin/env bash
# The end of `make demo`: trains a small ResNet on local ranks, with PyTorch. What is missing is said
# in one line.
set -euo pipefail
cd "$(dirname "$0")/.."

leave_out() {
  echo
  echo "training: left out, $1"
  exit 0
}
tools/install_packages.sh python >&2
tools/python_venv.sh build/venv || leave_out "what the Python package is built with cannot be had"
build/venv/bin/python -c 'import torch' 2>/dev/null || leave_out "PyTorch cannot be had"
cmake --preset release -DPLEACH_PYTHON="$PWD/build/venv/bin/python" >&2
cmake --build --preset release --target pleach_core pleach_shared >&2
export PYTHONPATH="$PWD/build/release/python"
exec timeout 600 build/venv/bin/python examples/python/train_resnet.py
