// One row per type, op, size and instruction set: folds of two operands, in bytes of the result.
//   cmake --preset release -DPLEACH_BUILD_BENCHMARKS=ON && cmake --build --preset release
//   build/release/kernels_benchmark
// Afterwards it holds itself to this: in a level-1 cache each set is at least as fast as the
// baseline, but for noise, and sums of float32 are faster by a tenth.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "pleach/runtime/kernels.h"

namespace pleach {
namespace {

using Buffer = std::vector<std::byte>;

constexpr int64_t kCacheBytes = 8 << 10;
constexpr std::array<int64_t, 3> kSizes = {1 << 10, kCacheBytes, 16 << 20};
constexpr std::array kOps = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin};

// Ordinary numbers of every type: no subnormals, which are slow in a way of their own.
Buffer operand(ElementType type, int64_t bytes, int salt) {
  const int64_t element = element_bytes(type);
  Buffer buffer(static_cast<std::size_t>(bytes));
  for (int64_t i = 0; i < bytes / element; ++i) {
    const auto number = static_cast<int8_t>(1 + (i * 7 + salt) % 5);
    std::byte* const at = buffer.data() + i * element;
    const auto put = [at](auto value) { std::memcpy(at, &value, sizeof(value)); };
    if (type == ElementType::kFloat32) {
      put(static_cast<float>(number));
    } else if (type == ElementType::kFloat64) {
      put(static_cast<double>(number));
    } else if (is_half(type)) {
      put(static_cast<uint16_t>(0x3c00 + number));  // near 1, or 1/128
    } else {
      *at = static_cast<std::byte>(number);
    }
  }
  return buffer;
}

struct Operands {
  Operands(Reduction what, int64_t bytes)
      : reduction(what),
        a(operand(what.type, bytes, 0)),
        b(operand(what.type, bytes, 3)),
        out(a.size()),
        count(bytes / element_bytes(what.type)) {}
  void fold(const Kernels& kernels) {
    const std::byte* const other = b.data();
    kernels.fold(reduction)(out.data(), a.data(), std::span(&other, 1), count);
  }
  Reduction reduction;
  Buffer a, b, out;
  int64_t count;
};

void fold(benchmark::State& state, const Kernels* kernels, Reduction reduction, int64_t bytes) {
  Operands operands(reduction, bytes);
  operands.fold(*runnable_kernels().front());
  const Buffer expected = operands.out;
  for (auto _ : state) {
    operands.fold(*kernels);
    benchmark::ClobberMemory();
  }
  if (operands.out != expected) {
    state.SkipWithError("the result differs from the baseline's");
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

// Bytes per second of the result, the best of several tries.
double speed(const Kernels& kernels, Reduction reduction) {
  constexpr int kTries = 15, kRepeats = 400;
  Operands operands(reduction, kCacheBytes);
  double best = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto begin = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      operands.fold(kernels);
      benchmark::ClobberMemory();
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(kRepeats * kCacheBytes) / taken.count());
  }
  return best;
}

// Prints each set's speed beside the baseline's; false: one is too slow.
bool compare(Reduction reduction) {
  const Kernels& baseline = *runnable_kernels().front();
  const double base = speed(baseline, reduction);
  std::string line = fmt::format("{:9} {:8} baseline {:7.1f} GB/s", to_text(reduction.type),
                                 to_text(reduction.op), base * 1e-9);
  bool is_fast = true;
  for (const Kernels* const kernels : runnable_kernels().subspan(1)) {
    const bool is_common =
        reduction.type == ElementType::kFloat32 && reduction.op == ReduceOp::kSum;
    const double ratio = speed(*kernels, reduction) / base;
    const double least = is_common ? 1.1 : 0.8;
    is_fast = is_fast && ratio >= least;
    line += fmt::format("  {} x {:.2f}{}", kernels->name, ratio,
                        ratio < least ? fmt::format(" (less than {})", least) : "");
  }
  fmt::print("{}\n", line);
  return is_fast;
}

}  // namespace
}  // namespace pleach

int main(int argc, char** argv) {
  using pleach::Reduction;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  bool is_fast = true;
  for (const pleach::ElementType type : pleach::kAllElementTypes) {
    for (const pleach::ReduceOp op : pleach::kOps) {
      for (const int64_t bytes : pleach::kSizes) {
        for (const pleach::Kernels* const kernels : pleach::runnable_kernels()) {
          benchmark::RegisterBenchmark(
              fmt::format("{}/{}/{}/{}", to_text(type), to_text(op), bytes, kernels->name).c_str(),
              pleach::fold, kernels, Reduction{type, op}, bytes);
        }
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  for (const pleach::ElementType type : pleach::kAllElementTypes) {
    for (const pleach::ReduceOp op : pleach::kOps) {
      is_fast = pleach::compare({type, op}) && is_fast;
    }
  }
  return is_fast ? EXIT_SUCCESS : EXIT_FAILURE;
}
