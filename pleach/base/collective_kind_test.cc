#include "pleach/base/collective_kind.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

TEST(CollectiveKind, TextFormsParseToTheSame) {
  for (const CollectiveKind kind : kAllCollectives) {
    const Result<CollectiveKind> parsed = parse_collective(to_text(kind));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, kind);
  }
  for (const ElementType type : kAllElementTypes) {
    const Result<ElementType> parsed = parse_element_type(to_text(type));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, type);
  }
  for (const ReduceOp op : kAllReduceOps) {
    const Result<ReduceOp> parsed = parse_reduce_op(to_text(op));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, op);
  }
}

TEST(CollectiveKind, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(parse_collective("allreduce").error().message,
            "unknown collective 'allreduce'; did you mean 'all_reduce'? known: all_reduce, "
            "reduce_scatter, all_gather, broadcast, reduce, all_to_all, gather, scatter");
  const std::string types =
      "known: float32, float64, float16, bfloat16, int8, int32, int64, uint8, float, double, half, "
      "int, char";
  EXPECT_EQ(parse_element_type("flaot").error().message,
            "unknown element type 'flaot'; did you mean 'float'? " + types);
  EXPECT_EQ(parse_element_type("fp32").error().message,
            "unknown element type 'fp32'; did you mean 'float32'? " + types);
  EXPECT_EQ(parse_element_type("fp64").error().message,
            "unknown element type 'fp64'; did you mean 'float64'? " + types);
  EXPECT_EQ(parse_element_type("complex").error().message,
            "unknown element type 'complex'; " + types);
  EXPECT_EQ(parse_element_type("fp16").error().message,
            "unknown element type 'fp16'; did you mean 'float16'? " + types);
  EXPECT_EQ(parse_element_type("bf16").error().message,
            "unknown element type 'bf16'; did you mean 'bfloat16'? " + types);
  EXPECT_EQ(parse_element_type("uint64").error().message,
            "element type 'uint64' is not supported; the nearest is 'int64'; " + types);
  const std::string ops = "known: sum, product, min, max, average, band, bor, bxor, prod, avg";
  EXPECT_EQ(parse_reduce_op("mean").error().message,
            "unknown reduction 'mean'; did you mean 'avg'? " + ops);
  EXPECT_EQ(parse_reduce_op("averge").error().message,
            "unknown reduction 'averge'; did you mean 'average'? " + ops);
}

TEST(CollectiveKind, KnowsTheShortNamesOfNcclTests) {
  EXPECT_EQ(parse_element_type("float").value(), ElementType::kFloat32);
  EXPECT_EQ(parse_element_type("double").value(), ElementType::kFloat64);
  EXPECT_EQ(parse_element_type("half").value(), ElementType::kFloat16);
  EXPECT_EQ(parse_element_type("int").value(), ElementType::kInt32);
  EXPECT_EQ(parse_element_type("char").value(), ElementType::kInt8);
  EXPECT_EQ(parse_reduce_op("prod").value(), ReduceOp::kProduct);
  EXPECT_EQ(parse_reduce_op("avg").value(), ReduceOp::kAverage);
}

TEST(CollectiveKind, NotEveryTypeHasEveryReduction) {
  for (const ElementType type : kAllElementTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      const bool is_bitwise =
          op == ReduceOp::kBitwiseAnd || op == ReduceOp::kBitwiseOr || op == ReduceOp::kBitwiseXor;
      const bool has_it = is_floating(type) ? !is_bitwise : op != ReduceOp::kAverage;
      EXPECT_EQ(check_reduction(type, op).has_value(), has_it) << to_text(type) << to_text(op);
    }
  }
  const Status average = check_reduction(ElementType::kInt32, ReduceOp::kAverage);
  EXPECT_EQ(average.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(average.error().message, "reduction 'average' is for floating types, not for int32");
  EXPECT_EQ(check_reduction(ElementType::kFloat16, ReduceOp::kBitwiseXor).error().message,
            "reduction 'bxor' is for integer types, not for float16");
}

TEST(CollectiveKind, HasItsProperties) {
  struct Case {
    CollectiveKind kind;
    bool reduces;
    bool is_from_root;
    bool is_to_root;
    bool gives_shards;
    bool ends_with_shards;
    double factor;  // of busbw on 4 ranks
  };
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce, true, false, false, false, false, 1.5},
      {CollectiveKind::kReduceScatter, true, false, false, false, true, 0.75},
      {CollectiveKind::kAllGather, false, false, false, true, false, 0.75},
      {CollectiveKind::kBroadcast, false, true, false, false, false, 1},
      {CollectiveKind::kReduce, true, false, true, false, false, 1},
      {CollectiveKind::kAllToAll, false, false, false, false, false, 0.75},
      {CollectiveKind::kGather, false, false, true, true, false, 0.75},
      {CollectiveKind::kScatter, false, true, false, false, true, 0.75},
  };
  ASSERT_EQ(cases.size(), kAllCollectives.size());
  for (const auto& [kind, combines, from_root, to_root, gives, ends, factor] : cases) {
    EXPECT_EQ(reduces(kind), combines) << to_text(kind);
    EXPECT_EQ(has_root(kind), from_root || to_root) << to_text(kind);
    EXPECT_EQ(is_from_root(kind), from_root) << to_text(kind);
    EXPECT_EQ(is_to_root(kind), to_root) << to_text(kind);
    EXPECT_EQ(gives_shards(kind), gives) << to_text(kind);
    EXPECT_EQ(ends_with_shards(kind), ends) << to_text(kind);
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(kind, 4), factor) << to_text(kind);
  }
}

}  // namespace
}  // namespace pleach
