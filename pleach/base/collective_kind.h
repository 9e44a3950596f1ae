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
  kGather,
  kScatter,
};

inline constexpr std::array kAllCollectives = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kBroadcast, CollectiveKind::kReduce,        CollectiveKind::kAllToAll,
    CollectiveKind::kGather,    CollectiveKind::kScatter};

enum class ElementType : uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt8,
  kInt32,
  kInt64,
  kUint8,
};
inline constexpr std::array kAllElementTypes = {
    ElementType::kFloat32, ElementType::kFloat64, ElementType::kFloat16, ElementType::kBFloat16,
    ElementType::kInt8,    ElementType::kInt32,   ElementType::kInt64,   ElementType::kUint8};

// kAverage: the sum over the number of ranks.
enum class ReduceOp : uint8_t {
  kSum,
  kProduct,
  kMin,
  kMax,
  kAverage,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
};
inline constexpr std::array kAllReduceOps = {
    ReduceOp::kSum,     ReduceOp::kProduct,    ReduceOp::kMin,       ReduceOp::kMax,
    ReduceOp::kAverage, ReduceOp::kBitwiseAnd, ReduceOp::kBitwiseOr, ReduceOp::kBitwiseXor};

// The text forms: `all_reduce`, `float32`, `sum`. parse_* list the known names in their error, and
// know nccl-tests' short ones: `float`, `double`, `half`, `int`, `char`, `prod`, `avg`.
std::string_view to_text(CollectiveKind kind);
std::string_view to_text(ElementType type);
std::string_view to_text(ReduceOp op);
Result<CollectiveKind> parse_collective(std::string_view text);
Result<ElementType> parse_element_type(std::string_view text);
Result<ReduceOp> parse_reduce_op(std::string_view text);

// Bytes of one element.
int64_t element_bytes(ElementType type);
bool is_floating(ElementType type);
// Whether it is float16 or bfloat16.
bool is_half(ElementType type);

// Whether elements of the type can be reduced so: averages are of floating types, bitwise ones of
// integers.
//   errors  kInvalidArgument, naming both
Status check_reduction(ElementType type, ReduceOp op);

// Whether the collective combines values (all_reduce, reduce_scatter, reduce).
bool reduces(CollectiveKind kind);
// Whether the collective has a root, which alone gives something (broadcast, scatter), or alone
// ends with something (reduce, gather).
bool has_root(CollectiveKind kind);
bool is_from_root(CollectiveKind kind);
bool is_to_root(CollectiveKind kind);
// Whether every rank gives its shard of the whole (all_gather, gather), or ends with it
// (reduce_scatter, scatter).
bool gives_shards(CollectiveKind kind);
bool ends_with_shards(CollectiveKind kind);

// busbw = algbw × this factor; rank_count > 0. Source: nccl-tests doc/PERFORMANCE.md.
double bus_bandwidth_factor(CollectiveKind kind, int32_t rank_count);

}  // namespace pleach
