// The loops are plain ones, which the compiler turns into vectors (this file is compiled at -O3,
// without contraction: CMakeLists.txt). They have no instruction set of their own: each is inlined
// into one function per set, whose attribute says what its vectors may be. So the sets share one
// text, nothing leaks from them into the rest of the program, as it would from files compiled for
// them (an inline function of the standard library is kept once, in whichever version), and no
// resolver runs before the sanitizers do. The exception is float16, whose conversions the compiler
// has no vectors for.
#include "pleach/runtime/kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/element.h"
#include "pleach/runtime/combine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace pleach {
namespace {

// Bytes of one operand that are folded over all operands before the next ones: they and as many of
// the next operand fit a level-1 cache.
constexpr int64_t kBlockBytes = 8192;

// out[i] = left[i] op right[i]. An element is read before it is written, so `out` may be an
// operand.
template <ReduceOp op, typename Out, typename Left, typename Right>
[[gnu::always_inline]] inline void combine_all(Out* out, const Left* left, const Right* right,
                                               int64_t count) {
  if constexpr (kIsHalf<Out> || kIsHalf<Right>) {  // long already
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) {
      out[i] = narrow<Out>(combine<op>(widen(left[i]), widen(right[i])));
    }
  } else {
#pragma GCC ivdep
#pragma GCC unroll 8
    for (int64_t i = 0; i < count; ++i) {
      out[i] = combine<op>(left[i], right[i]);
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline const T* elements(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

// Of two operands: one loop.
template <ReduceOp op, typename T>
[[gnu::always_inline]] inline void fold_two(std::byte* out, const std::byte* a, const std::byte* b,
                                            int64_t count) {
  combine_all<op>(reinterpret_cast<T*>(out), elements<T>(a), elements<T>(b), count);
}

// Of more: block by block.
template <ReduceOp op, typename T>
[[gnu::always_inline]] inline void fold_many(std::byte* out, const std::byte* a,
                                             std::span<const std::byte* const> others,
                                             int64_t count) {
  using Sum = Arithmetic<T>;
  constexpr int64_t kBlock = kBlockBytes / static_cast<int64_t>(sizeof(Sum));
  // Half types keep what has not been rounded yet; others need no place but the result's, unless
  // that is an operand which is yet to come.
  std::array<Sum, kBlock> apart;
  const bool needs_place = kIsHalf<T> || std::ranges::count(others.subspan(1), out) > 0;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    T* const result = reinterpret_cast<T*>(out) + begin;
    Sum* sum = apart.data();
    if constexpr (!kIsHalf<T>) {
      sum = needs_place ? sum : result;
    }
    combine_all<op>(sum, elements<T>(a) + begin, elements<T>(others.front()) + begin, length);
    for (const std::byte* const other : others.subspan(1, others.size() - 2)) {
      combine_all<op>(sum, sum, elements<T>(other) + begin, length);
    }
    combine_all<op>(result, sum, elements<T>(others.back()) + begin, length);
  }
}

template <typename T>
[[gnu::always_inline]] inline void widen_elements(float* out, const std::byte* in, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    out[i] = widen(elements<T>(in)[i]);
  }
}

template <typename T>
[[gnu::always_inline]] inline void narrow_elements(std::byte* out, const float* in, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    reinterpret_cast<T*>(out)[i] = narrow<T>(in[i]);
  }
}

// Small folds are of two: they are spared the registers that the other loops save.
struct Baseline {
  static constexpr std::string_view kName = "baseline";
  template <ReduceOp op, typename T>
  [[gnu::noinline]] static void many(std::byte* out, const std::byte* a,
                                     std::span<const std::byte* const> others, int64_t count) {
    fold_many<op, T>(out, a, others, count);
  }
  template <ReduceOp op, typename T>
  static void fold(std::byte* out, const std::byte* a, std::span<const std::byte* const> others,
                   int64_t count) {
    others.size() == 1 ? fold_two<op, T>(out, a, others[0], count)
                       : many<op, T>(out, a, others, count);
  }
  template <typename T>
  static void widen(float* out, const std::byte* in, int64_t count) {
    widen_elements<T>(out, in, count);
  }
  template <typename T>
  static void narrow(std::byte* out, const float* in, int64_t count) {
    narrow_elements<T>(out, in, count);
  }
};

#if defined(__x86_64__)

#define PLEACH_AVX2 gnu::target("avx2,f16c")
#define PLEACH_AVX512 gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx2,f16c")

[[PLEACH_AVX2]] inline __m256 load_eight(const std::byte* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

template <ReduceOp op>
[[PLEACH_AVX2]] inline __m256 combine_eight(__m256 a, __m256 b) {
  switch (op) {
    case ReduceOp::kMin:
      return _mm256_min_ps(b, a);  // b < a ? b : a
    case ReduceOp::kMax:
      return _mm256_max_ps(b, a);
    case ReduceOp::kProduct:
      return _mm256_mul_ps(a, b);
    default:
      return _mm256_add_ps(a, b);
  }
}

// Eight at a time, over all operands. AVX-512 could take sixteen, but the memory cannot.
template <ReduceOp op>
[[PLEACH_AVX2]] void fold_float16(std::byte* out, const std::byte* a,
                                  std::span<const std::byte* const> others, int64_t count) {
  constexpr int64_t kBytes = 16;
  int64_t at = 0;
  for (const int64_t bytes = count * 2; at + kBytes <= bytes; at += kBytes) {
    __m256 sum = load_eight(a + at);
    for (const std::byte* const other : others) {
      sum = combine_eight<op>(sum, load_eight(other + at));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + at),
                     _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT));
  }
  for (int64_t bytes = count * 2; at < bytes; at += 2) {
    Float16 value;
    std::memcpy(&value, a + at, sizeof(value));
    float sum = widen(value);
    for (const std::byte* const other : others) {
      std::memcpy(&value, other + at, sizeof(value));
      sum = combine<op>(sum, widen(value));
    }
    value = narrow<Float16>(sum);
    std::memcpy(out + at, &value, sizeof(value));
  }
}

[[PLEACH_AVX2]] void widen_float16(float* out, const std::byte* in, int64_t count) {
  int64_t at = 0;
  for (; at + 8 <= count; at += 8) {
    _mm256_storeu_ps(out + at, load_eight(in + 2 * at));
  }
  widen_elements<Float16>(out + at, in + 2 * at, count - at);
}

[[PLEACH_AVX2]] void narrow_float16(std::byte* out, const float* in, int64_t count) {
  int64_t at = 0;
  for (; at + 8 <= count; at += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * at),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + at), _MM_FROUND_TO_NEAREST_INT));
  }
  narrow_elements<Float16>(out + 2 * at, in + at, count - at);
}

struct Avx2 {
  static constexpr std::string_view kName = "avx2";
  template <ReduceOp op, typename T>
  [[PLEACH_AVX2, gnu::noinline]] static void many(std::byte* out, const std::byte* a,
                                                  std::span<const std::byte* const> others,
                                                  int64_t count) {
    fold_many<op, T>(out, a, others, count);
  }
  template <ReduceOp op, typename T>
  [[PLEACH_AVX2]] static void fold(std::byte* out, const std::byte* a,
                                   std::span<const std::byte* const> others, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      fold_float16<op>(out, a, others, count);
    } else {
      others.size() == 1 ? fold_two<op, T>(out, a, others[0], count)
                         : many<op, T>(out, a, others, count);
    }
  }
  template <typename T>
  [[PLEACH_AVX2]] static void widen(float* out, const std::byte* in, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      widen_float16(out, in, count);
    } else {
      widen_elements<T>(out, in, count);
    }
  }
  template <typename T>
  [[PLEACH_AVX2]] static void narrow(std::byte* out, const float* in, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      narrow_float16(out, in, count);
    } else {
      narrow_elements<T>(out, in, count);
    }
  }
};

struct Avx512 {
  static constexpr std::string_view kName = "avx512";
  template <ReduceOp op, typename T>
  [[PLEACH_AVX512, gnu::noinline]] static void many(std::byte* out, const std::byte* a,
                                                    std::span<const std::byte* const> others,
                                                    int64_t count) {
    fold_many<op, T>(out, a, others, count);
  }
  template <ReduceOp op, typename T>
  [[PLEACH_AVX512]] static void fold(std::byte* out, const std::byte* a,
                                     std::span<const std::byte* const> others, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      fold_float16<op>(out, a, others, count);
    } else {
      others.size() == 1 ? fold_two<op, T>(out, a, others[0], count)
                         : many<op, T>(out, a, others, count);
    }
  }
  template <typename T>
  [[PLEACH_AVX512]] static void widen(float* out, const std::byte* in, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      widen_float16(out, in, count);
    } else {
      widen_elements<T>(out, in, count);
    }
  }
  template <typename T>
  [[PLEACH_AVX512]] static void narrow(std::byte* out, const float* in, int64_t count) {
    if constexpr (std::is_same_v<T, Float16>) {
      narrow_float16(out, in, count);
    } else {
      narrow_elements<T>(out, in, count);
    }
  }
};

#endif

// The type's fold, or null. An average is a sum until it is divided.
template <typename Set, ElementType type, ReduceOp op>
constexpr Fold fold_of() {
  return with_element(type, [](auto tag) -> Fold {
    using T = typename decltype(tag)::type;
    constexpr bool kIsBitwise = op >= ReduceOp::kBitwiseAnd;
    if constexpr (std::is_integral_v<T> ? op == ReduceOp::kAverage : kIsBitwise) {
      return nullptr;
    } else {
      return &Set::template fold < op == ReduceOp::kAverage ? ReduceOp::kSum : op, T > ;
    }
  });
}

template <typename Set, ElementType type, std::size_t... ops>
constexpr std::array<Fold, sizeof...(ops)> folds_of(std::index_sequence<ops...> /*all*/) {
  return {fold_of<Set, type, static_cast<ReduceOp>(ops)>()...};
}

template <typename Set, ElementType type>
constexpr Conversions conversions_of() {
  return with_element(type, [](auto tag) -> Conversions {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T>) {
      return {&Set::template widen<T>, &Set::template narrow<T>};
    } else {
      return {};
    }
  });
}

template <typename Set, std::size_t... types>
constexpr Kernels kernels_of(std::index_sequence<types...> /*all*/) {
  return {Set::kName,
          {folds_of<Set, static_cast<ElementType>(types)>(
              std::make_index_sequence<kAllReduceOps.size()>())...},
          {conversions_of<Set, static_cast<ElementType>(types)>()...}};
}

template <typename Set>
constexpr Kernels kKernels = kernels_of<Set>(std::make_index_sequence<kAllElementTypes.size()>());

// The instruction sets of this machine that there are kernels for.
class RunnableKernels {
 public:
  RunnableKernels() {
    add(kKernels<Baseline>);
#if defined(__x86_64__)
    __builtin_cpu_init();
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    // Not every compiler's __builtin_cpu_supports knows f16c.
    const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    if (has_f16c && __builtin_cpu_supports("avx2")) {
      add(kKernels<Avx2>);
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        add(kKernels<Avx512>);
      }
    }
#endif
  }
  std::span<const Kernels* const> all() const {
    return std::span(all_).first(count_);
  }

 private:
  void add(const Kernels& kernels) {
    all_[count_++] = &kernels;
  }

  std::array<const Kernels*, 3> all_ = {};
  std::size_t count_ = 0;
};

// Chosen before main(): where a static variable of the function is asked whether it is there, small
// folds pay for it.
const Kernels* const kFastest = RunnableKernels().all().back();

}  // namespace

std::span<const Kernels* const> runnable_kernels() {
  static const RunnableKernels kRunnable;
  return kRunnable.all();
}

void reduce(Reduction reduction, std::byte* out, const std::byte* a,
            std::span<const std::byte* const> others, int64_t count) {
  const Fold fold = kFastest->fold(reduction);
  PLEACH_CHECK(fold != nullptr, "the type has the reduction");
  fold(out, a, others, count);
}

void widen(ElementType type, float* out, const std::byte* in, int64_t count) {
  PLEACH_CHECK(is_half(type), "half types are widened");
  kFastest->conversion(type).widen(out, in, count);
}

void narrow(ElementType type, std::byte* out, const float* in, int64_t count) {
  PLEACH_CHECK(is_half(type), "half types are rounded to");
  kFastest->conversion(type).narrow(out, in, count);
}

void divide(ElementType type, std::byte* out, int64_t count, int32_t divisor) {
  PLEACH_CHECK(is_floating(type), "averages are of floating types");
  with_element(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_integral_v<T>) {
      auto* const values = reinterpret_cast<T*>(out);
      for (int64_t i = 0; i < count; ++i) {
        values[i] = narrow<T>(widen(values[i]) / static_cast<Arithmetic<T>>(divisor));
      }
    }
  });
}

}  // namespace pleach
