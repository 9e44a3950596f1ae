#include "pleach/base/collective_kind.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/names.h"

namespace pleach {
namespace {

constexpr std::array<Name<CollectiveKind>, 8> kCollectiveNames = {{
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kBroadcast, "broadcast"},
    {CollectiveKind::kReduce, "reduce"},
    {CollectiveKind::kAllToAll, "all_to_all"},
    {CollectiveKind::kGather, "gather"},
    {CollectiveKind::kScatter, "scatter"},
}};
// Ours first, then those of nccl-tests.
constexpr std::array<Name<ElementType>, 13> kElementTypeNames = {{
    {ElementType::kFloat32, "float32"},
    {ElementType::kFloat64, "float64"},
    {ElementType::kFloat16, "float16"},
    {ElementType::kBFloat16, "bfloat16"},
    {ElementType::kInt8, "int8"},
    {ElementType::kInt32, "int32"},
    {ElementType::kInt64, "int64"},
    {ElementType::kUint8, "uint8"},
    {ElementType::kFloat32, "float"},
    {ElementType::kFloat64, "double"},
    {ElementType::kFloat16, "half"},
    {ElementType::kInt32, "int"},
    {ElementType::kInt8, "char"},
}};
constexpr std::array<Name<ReduceOp>, 10> kReduceOpNames = {{
    {ReduceOp::kSum, "sum"},
    {ReduceOp::kProduct, "product"},
    {ReduceOp::kMin, "min"},
    {ReduceOp::kMax, "max"},
    {ReduceOp::kAverage, "average"},
    {ReduceOp::kBitwiseAnd, "band"},
    {ReduceOp::kBitwiseOr, "bor"},
    {ReduceOp::kBitwiseXor, "bxor"},
    {ReduceOp::kProduct, "prod"},
    {ReduceOp::kAverage, "avg"},
}};

// Words that others have for these.
constexpr std::array<Name<ElementType>, 5> kOtherElementTypeNames = {{
    {ElementType::kFloat32, "fp32"},
    {ElementType::kFloat64, "fp64"},
    {ElementType::kFloat16, "fp16"},
    {ElementType::kBFloat16, "bf16"},
    {ElementType::kFloat32, "single"},
}};
// Types that there are elsewhere (nccl-tests' among them), each with the nearest one here.
constexpr std::array<Name<ElementType>, 4> kAbsentElementTypes = {{
    {ElementType::kFloat16, "f8e4m3"},
    {ElementType::kBFloat16, "f8e5m2"},
    {ElementType::kInt32, "uint32"},
    {ElementType::kInt64, "uint64"},
}};

}  // namespace

std::string_view to_text(CollectiveKind kind) {
  return name_of(kCollectiveNames, kind);
}
std::string_view to_text(ElementType type) {
  return name_of(kElementTypeNames, type);
}
std::string_view to_text(ReduceOp op) {
  return name_of(kReduceOpNames, op);
}

Result<CollectiveKind> parse_collective(std::string_view text) {
  return parse_name(kCollectiveNames, "collective", text);
}
Result<ElementType> parse_element_type(std::string_view text) {
  constexpr std::string_view kWhat = "element type";
  const std::vector<std::string> known = texts_of(kElementTypeNames);
  if (const auto nearest = value_of(kAbsentElementTypes, text)) {
    return invalid(fmt::format("{} {} is not supported; the nearest is {}; known: {}", kWhat,
                               quoted(text), quoted(to_text(*nearest)), join(known, ", ")));
  }
  if (const auto meant = value_of(kOtherElementTypeNames, text)) {
    return unknown_name(kWhat, text, known, to_text(*meant));
  }
  return parse_name(kElementTypeNames, kWhat, text);
}
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  constexpr std::string_view kWhat = "reduction";
  if (text == "mean") {
    return unknown_name(kWhat, text, texts_of(kReduceOpNames), "avg");
  }
  return parse_name(kReduceOpNames, kWhat, text);
}

int64_t element_bytes(ElementType type) {
  return with_element(
      type, [](auto tag) { return static_cast<int64_t>(sizeof(typename decltype(tag)::type)); });
}

bool is_floating(ElementType type) {
  return with_element(type,
                      [](auto tag) { return !std::is_integral_v<typename decltype(tag)::type>; });
}

bool is_half(ElementType type) {
  return with_element(type, [](auto tag) { return kIsHalf<typename decltype(tag)::type>; });
}

Status check_reduction(ElementType type, ReduceOp op) {
  const bool is_bitwise =
      op == ReduceOp::kBitwiseAnd || op == ReduceOp::kBitwiseOr || op == ReduceOp::kBitwiseXor;
  if (is_floating(type) ? is_bitwise : op == ReduceOp::kAverage) {
    return invalid(fmt::format("reduction {} is for {} types, not for {}", quoted(to_text(op)),
                               is_bitwise ? "integer" : "floating", to_text(type)));
  }
  return ok();
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kReduce;
}

bool has_root(CollectiveKind kind) {
  return is_from_root(kind) || is_to_root(kind);
}

bool is_from_root(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kScatter;
}

bool is_to_root(CollectiveKind kind) {
  return kind == CollectiveKind::kReduce || kind == CollectiveKind::kGather;
}

bool gives_shards(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kGather;
}

bool ends_with_shards(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kScatter;
}

double bus_bandwidth_factor(CollectiveKind kind, int32_t rank_count) {
  PLEACH_CHECK(rank_count > 0, "a collective has at least one rank");
  const double others_fraction = static_cast<double>(rank_count - 1) / rank_count;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * others_fraction;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return others_fraction;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return 1;
  }
  return 1;
}

}  // namespace pleach
