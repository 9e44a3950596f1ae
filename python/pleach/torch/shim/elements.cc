#include "elements.h"

#include <c10/util/Exception.h>

#include <array>
#include <optional>

namespace pleach_torch {
namespace {

using c10::ScalarType;
using c10d::ReduceOp;

// The types that the C interface has too.
std::optional<pleach_type> same_type(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return PLEACH_FLOAT32;
    case ScalarType::Double:
      return PLEACH_FLOAT64;
    case ScalarType::Half:
      return PLEACH_FLOAT16;
    case ScalarType::BFloat16:
      return PLEACH_BFLOAT16;
    case ScalarType::Char:
      return PLEACH_INT8;
    case ScalarType::Int:
      return PLEACH_INT32;
    case ScalarType::Long:
      return PLEACH_INT64;
    case ScalarType::Byte:
      return PLEACH_UINT8;
    default:
      return std::nullopt;
  }
}

std::optional<pleach_reduction> reduction_of_bool(const ReduceOp& op) {
  switch (op.op_) {
    case ReduceOp::SUM:
    case ReduceOp::MAX:
    case ReduceOp::BOR:
      return PLEACH_BITWISE_OR;
    case ReduceOp::PRODUCT:
    case ReduceOp::MIN:
    case ReduceOp::BAND:
      return PLEACH_BITWISE_AND;
    case ReduceOp::BXOR:
      return PLEACH_BITWISE_XOR;
    default:
      return std::nullopt;
  }
}

std::optional<pleach_reduction> reduction_of_number(ScalarType type, const ReduceOp& op) {
  const bool is_floating = c10::isFloatingType(type) || c10::isComplexType(type);
  switch (op.op_) {
    case ReduceOp::SUM:
      return PLEACH_SUM;
    case ReduceOp::AVG:
      return is_floating ? std::optional(PLEACH_AVERAGE) : std::nullopt;
    case ReduceOp::PRODUCT:
      return PLEACH_PRODUCT;
    case ReduceOp::MIN:
      return PLEACH_MIN;
    case ReduceOp::MAX:
      return PLEACH_MAX;
    case ReduceOp::BAND:
      return is_floating ? std::nullopt : std::optional(PLEACH_BITWISE_AND);
    case ReduceOp::BOR:
      return is_floating ? std::nullopt : std::optional(PLEACH_BITWISE_OR);
    case ReduceOp::BXOR:
      return is_floating ? std::nullopt : std::optional(PLEACH_BITWISE_XOR);
    default:
      return std::nullopt;
  }
}

std::optional<Reduction> find_reduction(ScalarType type, const ReduceOp& op) {
  if (type == ScalarType::Bool) {
    const auto reduction = reduction_of_bool(op);
    return reduction ? std::optional(Reduction{{PLEACH_UINT8, 1}, *reduction}) : std::nullopt;
  }
  const auto reduction = reduction_of_number(type, op);
  if (!reduction) {
    return std::nullopt;
  }
  if (c10::isComplexType(type)) {
    const auto part = same_type(c10::toRealValueType(type));
    const bool adds = *reduction == PLEACH_SUM || *reduction == PLEACH_AVERAGE;
    return part && adds ? std::optional(Reduction{{*part, 2}, *reduction}) : std::nullopt;
  }
  const auto same = same_type(type);
  return same ? std::optional(Reduction{{*same, 1}, *reduction}) : std::nullopt;
}

}  // namespace

Elements moved_elements(ScalarType type) {
  if (const auto same = same_type(type)) {
    return {*same, 1};
  }
  return {PLEACH_UINT8, static_cast<int64_t>(c10::elementSize(type))};
}

Reduction reduction_of(ScalarType type, const ReduceOp& op, const char* collective) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.op_ != ReduceOp::PREMUL_SUM, "pleach: ", collective,
                              ": PREMUL_SUM is not supported: multiply before, and use SUM");
  const auto found = find_reduction(type, op);
  TORCH_CHECK_NOT_IMPLEMENTED(found, "pleach: ", collective, ": ", name_of(op), " of ",
                              c10::toString(type), " is not supported");
  return *found;
}

const char* name_of(const ReduceOp& op) {
  constexpr std::array kNames = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                 "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
  return op.op_ < kNames.size() ? kNames[op.op_] : "an unknown reduction";
}

}  // namespace pleach_torch
