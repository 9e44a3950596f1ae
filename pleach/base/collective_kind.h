// The kinds of collective, the element types and the reductions, with their one text form.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "pleach/base/result.h"

namespace pleach {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
};

inline constexpr std::array kAllCollectives = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast, CollectiveKind::kReduce,        CollectiveKind::kAllToAll};

enum class ElementType : uint8_t { kFloat32, kFloat64, kInt32 };
// kAverage: the sum over the number of ranks; of integers towards zero.
enum class ReduceOp : uint8_t { kSum, kProduct, kMin, kMax, kAverage };

// The text forms: `all_reduce`, `float32`, `sum`. parse_* list the known names in their error, and
// know nccl-tests' short ones: `float`, `double`, `int`, `prod`, `avg`.
std::string_view to_text(CollectiveKind kind);
std::string_view to_text(ElementType type);
std::string_view to_text(ReduceOp op);
Result<CollectiveKind> parse_collective(std::string_view text);
Result<ElementType> parse_element_type(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);

// Bytes of one element.
int64_t element_bytes(ElementType type);

// Whether the collective combines values (all_reduce, reduce_scatter, reduce).
bool reduces(CollectiveKind kind);
// Whether the collective has a root (broadcast, reduce).
bool has_root(CollectiveKind kind);

// busbw = algbw × this factor; rank_count > 0. Source: nccl-tests doc/PERFORMANCE.md.
double bus_bandwidth_factor(CollectiveKind kind, int32_t rank_count);

}  // namespace pleach
