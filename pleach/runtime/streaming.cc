#include "pleach/runtime/streaming.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/runtime/combine.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace pleach {
namespace {

#if defined(__x86_64__)

// Every x86-64 has these vectors; memory is not written faster with larger ones.
constexpr int64_t kVector = 16;
constexpr int64_t kLine = 64;

template <typename T>
struct VectorOf {
  using Type [[gnu::vector_size(kVector)]] = T;
};

template <typename T>
[[gnu::always_inline]] inline typename VectorOf<T>::Type load(const std::byte* from) {
  typename VectorOf<T>::Type value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Bytes up to the next line.
int64_t to_line(const std::byte* address) {
  return -reinterpret_cast<intptr_t>(address) & (kLine - 1);
}

// `out` stands at a line, `bytes` is of whole ones.
template <ReduceOp op, typename T>
void fold_lines(std::byte* out, const std::byte* a, std::span<const std::byte* const> others,
                int64_t offset, int64_t bytes) {
  using Vector = typename VectorOf<T>::Type;
  for (const int64_t end = offset + bytes; offset < end; offset += kLine) {
    Vector sums[kLine / kVector];
    for (int64_t k = 0; k < kLine / kVector; ++k) {
      sums[k] = load<T>(a + offset + k * kVector);
    }
    for (const std::byte* const other : others) {
      for (int64_t k = 0; k < kLine / kVector; ++k) {
        sums[k] = combine<op>(sums[k], load<T>(other + offset + k * kVector));
      }
    }
    for (int64_t k = 0; k < kLine / kVector; ++k) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + offset + k * kVector),
                       std::bit_cast<__m128i>(sums[k]));
    }
  }
}

using LineFold = void (*)(std::byte* out, const std::byte* a,
                          std::span<const std::byte* const> others, int64_t offset, int64_t bytes);

template <typename T>
LineFold line_fold(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return fold_lines<ReduceOp::kSum, T>;
    case ReduceOp::kProduct:
      return fold_lines<ReduceOp::kProduct, T>;
    case ReduceOp::kMin:
      return fold_lines<ReduceOp::kMin, T>;
    case ReduceOp::kMax:
      return fold_lines<ReduceOp::kMax, T>;
    default:
      return nullptr;
  }
}

LineFold line_fold(Reduction reduction) {
  switch (reduction.type) {
    case ElementType::kFloat32:
      return line_fold<float>(reduction.op);
    case ElementType::kFloat64:
      return line_fold<double>(reduction.op);
    default:
      return nullptr;
  }
}

// The bytes [begin, end), by the ordinary kernels.
void reduce_part(Reduction reduction, std::byte* out, const std::byte* a,
                 std::span<const std::byte* const> others, int64_t begin, int64_t end) {
  if (begin == end) {
    return;
  }
  // All of a fold's operands, however many, a few at a time: the order stays from the left.
  const int64_t count = (end - begin) / element_bytes(reduction.type);
  const std::byte* left = a + begin;
  for (const std::byte* const other : others) {
    const std::byte* const right = other + begin;
    reduce(reduction, out + begin, left, std::span(&right, 1), count);
    left = out + begin;
  }
}

#endif

}  // namespace

int64_t least_streamed() {
  // A quarter: operands take as much, and other ranks of the host. (The C library's answer counts
  // the caches of cores that are not there, on virtual machines.)
  static const int64_t least = [] {
    const Result<std::string> text =
        read_file("/sys/devices/system/cpu/cpu0/cache/index3/size", 1 << 10);
    const Result<int64_t> kibibytes =
        text ? parse_integer(trim(*text).substr(0, trim(*text).find('K')), "cache", 1, 1 << 30)
             : text.error();
    return kibibytes ? *kibibytes * 1024 / 4 : int64_t{8} << 20;
  }();
  return least;
}

#if defined(__x86_64__)

void stream_reduce(Reduction reduction, std::byte* out, const std::byte* a,
                   std::span<const std::byte* const> others, int64_t count) {
  const int64_t bytes = count * element_bytes(reduction.type);
  const int64_t head = to_line(out);
  const LineFold fold = line_fold(reduction);
  const bool is_operand = out == a || std::ranges::count(others, out) > 0;
  if (fold == nullptr || is_operand || bytes < head + kLine ||
      head % element_bytes(reduction.type) != 0) {
    reduce(reduction, out, a, others, count);
    return;
  }
  const int64_t lines = (bytes - head) / kLine * kLine;
  reduce_part(reduction, out, a, others, 0, head);
  fold(out, a, others, head, lines);
  reduce_part(reduction, out, a, others, head + lines, bytes);
  _mm_sfence();  // before anybody is told
}

void stream_copy(std::byte* out, const std::byte* in, int64_t bytes) {
  const int64_t head = to_line(out);
  if (bytes < head + kLine) {
    std::memcpy(out, in, static_cast<std::size_t>(bytes));
    return;
  }
  const int64_t end = head + (bytes - head) / kLine * kLine;
  std::memcpy(out, in, static_cast<std::size_t>(head));
  for (int64_t offset = head; offset < end; offset += kVector) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + offset),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + offset)));
  }
  std::memcpy(out + end, in + end, static_cast<std::size_t>(bytes - end));
  _mm_sfence();
}

#else

void stream_reduce(Reduction reduction, std::byte* out, const std::byte* a,
                   std::span<const std::byte* const> others, int64_t count) {
  reduce(reduction, out, a, others, count);
}

void stream_copy(std::byte* out, const std::byte* in, int64_t bytes) {
  std::memcpy(out, in, static_cast<std::size_t>(bytes));
}

#endif

void copy_to_peers(std::byte* out, std::span<const std::byte> in, bool are_far) {
  if (are_far && std::ssize(in) >= kLeastStreamedToPeers) {
    stream_copy(out, in.data(), std::ssize(in));
  } else {
    std::copy(in.begin(), in.end(), out);
  }
}

}  // namespace pleach
