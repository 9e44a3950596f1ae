#include "pleach/base/collective_kind.h"

#include <array>

#include "pleach/base/names.h"

namespace pleach {
namespace {

constexpr std::array<Name<CollectiveKind>, 6> kCollectiveNames = {{
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kBroadcast, "broadcast"},
    {CollectiveKind::kReduce, "reduce"},
    {CollectiveKind::kAllToAll, "all_to_all"},
}};
constexpr std::array<Name<ElementType>, 3> kElementTypeNames = {{
    {ElementType::kFloat32, "float32"},
    {ElementType::kFloat64, "float64"},
    {ElementType::kInt32, "int32"},
}};
constexpr std::array<Name<ReduceOp>, 5> kReduceOpNames = {{
    {ReduceOp::kSum, "sum"},
    {ReduceOp::kProduct, "product"},
    {ReduceOp::kMin, "min"},
    {ReduceOp::kMax, "max"},
    {ReduceOp::kAverage, "average"},
}};
constexpr std::array<Name<ElementType>, 3> kShortElementTypeNames = {{
    {ElementType::kFloat32, "float"},
    {ElementType::kFloat64, "double"},
    {ElementType::kInt32, "int"},
}};
constexpr std::array<Name<ReduceOp>, 2> kShortReduceOpNames = {{
    {ReduceOp::kProduct, "prod"},
    {ReduceOp::kAverage, "avg"},
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
  const auto known = value_of(kShortElementTypeNames, text);
  return known ? *known : parse_name(kElementTypeNames, "element type", text);
}
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  const auto known = value_of(kShortReduceOpNames, text);
  return known ? *known : parse_name(kReduceOpNames, "reduction", text);
}

int64_t element_bytes(ElementType type) {
  return type == ElementType::kFloat64 ? 8 : 4;
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kReduce;
}

bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
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
      return others_fraction;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kReduce:
      return 1;
  }
  return 1;
}

}  // namespace pleach
