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
  for (const ElementType type :
       {ElementType::kFloat32, ElementType::kFloat64, ElementType::kInt32}) {
    const Result<ElementType> parsed = parse_element_type(to_text(type));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, type);
  }
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    const Result<ReduceOp> parsed = parse_reduce_op(to_text(op));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(*parsed, op);
  }
}

TEST(CollectiveKind, UnknownNamesListTheKnownOnes) {
  EXPECT_EQ(parse_collective("allreduce").error().message,
            "unknown collective 'allreduce'; did you mean 'all_reduce'? known: all_reduce, "
            "reduce_scatter, all_gather, broadcast, reduce, all_to_all");
  const std::string types = "known: float32, float64, int32, float, double, int";
  EXPECT_EQ(parse_element_type("flaot").error().message,
            "unknown element type 'flaot'; did you mean 'float'? " + types);
  EXPECT_EQ(parse_element_type("fp32").error().message,
            "unknown element type 'fp32'; did you mean 'float32'? " + types);
  EXPECT_EQ(parse_element_type("fp64").error().message,
            "unknown element type 'fp64'; did you mean 'float64'? " + types);
  EXPECT_EQ(parse_element_type("complex").error().message,
            "unknown element type 'complex'; " + types);
  for (const std::string name : {"half", "fp16", "bf16", "bfloat16"}) {
    EXPECT_EQ(parse_element_type(name).error().message,
              "element type '" + name + "' is not supported; the nearest is 'float32'; " + types);
  }
  EXPECT_EQ(parse_element_type("int64").error().message,
            "element type 'int64' is not supported; the nearest is 'int32'; " + types);
  const std::string ops = "known: sum, product, min, max, average, prod, avg";
  EXPECT_EQ(parse_reduce_op("mean").error().message,
            "unknown reduction 'mean'; did you mean 'avg'? " + ops);
  EXPECT_EQ(parse_reduce_op("averge").error().message,
            "unknown reduction 'averge'; did you mean 'average'? " + ops);
}

TEST(CollectiveKind, KnowsTheShortNamesOfNcclTests) {
  EXPECT_EQ(parse_element_type("float").value(), ElementType::kFloat32);
  EXPECT_EQ(parse_element_type("double").value(), ElementType::kFloat64);
  EXPECT_EQ(parse_element_type("int").value(), ElementType::kInt32);
  EXPECT_EQ(parse_reduce_op("prod").value(), ReduceOp::kProduct);
  EXPECT_EQ(parse_reduce_op("avg").value(), ReduceOp::kAverage);
}

TEST(CollectiveKind, HasItsProperties) {
  struct Case {
    CollectiveKind kind;
    bool reduces;
    bool has_root;
    double factor;  // of busbw on 4 ranks
  };
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce, true, false, 1.5},
      {CollectiveKind::kReduceScatter, true, false, 0.75},
      {CollectiveKind::kAllGather, false, false, 0.75},
      {CollectiveKind::kBroadcast, false, true, 1},
      {CollectiveKind::kReduce, true, true, 1},
      {CollectiveKind::kAllToAll, false, false, 0.75},
  };
  for (const auto& [kind, combines, rooted, factor] : cases) {
    EXPECT_EQ(reduces(kind), combines) << to_text(kind);
    EXPECT_EQ(has_root(kind), rooted) << to_text(kind);
    EXPECT_DOUBLE_EQ(bus_bandwidth_factor(kind, 4), factor) << to_text(kind);
  }
  EXPECT_EQ(element_bytes(ElementType::kFloat32), 4);
  EXPECT_EQ(element_bytes(ElementType::kFloat64), 8);
  EXPECT_EQ(element_bytes(ElementType::kInt32), 4);
}

}  // namespace
}  // namespace pleach
