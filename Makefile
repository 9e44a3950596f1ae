# The few commands that a person types. Each installs what it needs (packages.txt) first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

.PHONY: build demo figures test torch-suite check-all format format-check tidy lint bench-check clean

FIGURES = dear_evaluation multitree_training multitree_network policy_algorithm_fabric network_needed \
  fred_evaluation
SOURCE_FILES = find pleach python tests bench examples -name '*.h' -o -name '*.cc' -o -name '*.c'

build:  ## The release binary, build/release/pleach.
	@tools/install_packages.sh build
	@cmake --preset release
	@cmake --build --preset release

demo:  ## Plans, proves, simulates and runs the all-reduce of ResNet-50's gradients; trains a ResNet.
	@tools/install_packages.sh build
	@cmake --preset release >&2
	@cmake --build --preset release --target pleach >&2
	@python3 examples/demo.py --pleach build/release/pleach
	@tools/demo_training.sh

figures:  ## Tables, CSV and plots of docs/validation. Debian's python3: it has matplotlib.
	@tools/install_packages.sh build figures
	@cmake --preset release >&2
	@cmake --build --preset release --target pleach >&2
	@for name in $(FIGURES); do \
	  /usr/bin/python3 bench/figures/$$name.py --pleach build/release/pleach; \
	done
	@/usr/bin/python3 bench/figures/published_throughput.py --check --pleach build/release/pleach
	@tools/install_packages.sh python
	@tools/python_venv.sh build/venv
	@cmake --preset release -DPLEACH_PYTHON="$(CURDIR)/build/venv/bin/python" >&2
	@cmake --build --preset release --target pleach_core pleach_shared >&2
	@/usr/bin/python3 bench/figures/dear_measured.py --pleach build/release/pleach

test:  ## What must hold before every commit: tests, tidy, format. Two cores, nothing built: 25 minutes.
	@tools/install_packages.sh build test python
	@$(MAKE) --no-print-directory format-check tidy
	@tools/python_venv.sh build/venv
	@cmake --workflow --preset dev

check-all: test  ## Also sanitizers, clang-tidy, long property runs, Slurm, benchmark limits: hours.
	@cmake --workflow --preset asan
	@PLEACH_LONG=1 ctest --preset asan -R '^runtime\.(tcp_transport|shm_transport|store|handshake|tls_session)_test$$'
	@cmake --workflow --preset tsan
	@PLEACH_LONG=1 ctest --preset long
	@tools/install_packages.sh slurm
	@python3 tests/slurm_run.py --must-run --pleach build/dev/pleach
	@python3 python/tests/install_check.py
	@$(MAKE) --no-print-directory torch-suite
	@$(MAKE) --no-print-directory lint bench-check

torch-suite:  ## The distributed tests that PyTorch ships: what passes over Gloo passes over ours.
	@if build/venv/bin/python -c 'import torch' 2>/dev/null; then \
	  PYTHONPATH="$(CURDIR)/build/dev/python" XDG_CACHE_HOME="$(CURDIR)/build/dev/cache" \
	    build/venv/bin/python tests/torch_suite.py; \
	else echo "torch suite: left out, PyTorch cannot be had"; fi

format:
	@$(SOURCE_FILES) | xargs clang-format -i

format-check:
	@$(SOURCE_FILES) | xargs clang-format --dry-run -Werror
	@echo "format: ok"

tidy:
	@python3 tools/tidy.py .

# Tests are tables of cases, however long; their numbers are small, and their speed is no matter.
TESTS_MAY = -readability-function-size,-bugprone-implicit-widening-of-multiplication-result,$\
  -performance-inefficient-vector-operation,-performance-inefficient-string-concatenation

lint:  ## clang-tidy over all that dev compiles, tests and benchmarks too.
	@tools/python_venv.sh build/venv
	@cmake --preset dev -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	@cmake --build build/lint --target generated_sources
	@run-clang-tidy -quiet -p build/lint "$(CURDIR)/pleach/(?!.*_test\.cc).*\.cc$$"
	@run-clang-tidy -quiet -p build/lint -checks=$(TESTS_MAY) \
	  "$(CURDIR)/(pleach/.*_test|(tests|bench)/.*)\.cc$$"

bench-check:  ## Each benchmark holds itself to its limits and checks what it computes.
	@tools/install_packages.sh build test peers
	@cmake --preset release -DPLEACH_BUILD_BENCHMARKS=ON
	@cmake --build --preset release
	@build/release/registry_benchmark --benchmark_min_time=0.05
	@build/release/progress_benchmark
	@build/release/routers_benchmark --check
	@build/release/kernels_benchmark --benchmark_filter=float32/sum --benchmark_min_time=0.05
	@for script in bench/*.py; do \
	  if [ -e "$$script" ]; then \
	    python3 "$$script" --check --pleach build/release/pleach; \
	  fi; \
	done

clean:
	@rm -rf build
