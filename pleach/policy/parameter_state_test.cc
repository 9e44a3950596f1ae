// What synchronous training allows, decision by decision.
#include "pleach/policy/parameter_state.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pleach {
namespace {

using Kind = CollectiveKind;

// Layers of 4, 0 and 6 bytes.
TrainingProfile three_layers() {
  return {.layers = {{.tensor_bytes = {4}}, {.tensor_bytes = {}}, {.tensor_bytes = {6}}},
          .atom_bytes = {4, 1, 1, 1, 1, 1, 1}};
}

// One fact after another, each with what it says: "" where it is legal.
struct Step {
  enum class What : uint8_t { kGradient, kForward, kStart, kFinish };
  What what = What::kStart;
  int32_t layer = 0;
  PolicyCollective collective = {};
  const char* error = "";
};
Step gradient(int32_t layer) {
  return {.what = Step::What::kGradient, .layer = layer};
}
Step forward(int32_t layer) {
  return {.what = Step::What::kForward, .layer = layer};
}
Step start(Kind kind, ByteRange range, const char* error = "") {
  return {.what = Step::What::kStart, .collective = {kind, range}, .error = error};
}
Step finish(Kind kind, ByteRange range) {
  return {.what = Step::What::kFinish, .collective = {kind, range}};
}

struct Case {
  const char* name;
  bool frees_parameters;
  std::vector<Step> steps;
};

TEST(ParameterState, AllowsSynchronousTrainingOnly) {
  const Case cases[] = {
      {"no collective of these parameters",
       false,
       {gradient(2), start(Kind::kAllReduce, {4, 11}, "of bytes 4 to 11, of a model of 10 bytes"),
        start(Kind::kAllReduce, {-1, 4}, "of a model of 10 bytes"),
        start(Kind::kAllReduce, {4, 4}, "of a model of 10 bytes"),
        start(Kind::kAllToAll, {4, 10}, "which no policy may")}},
      {"reductions want gradients, once",
       false,
       {start(Kind::kAllReduce, {0, 4}, "reduced already, or not computed yet"), gradient(2),
        start(Kind::kAllReduce, {0, 10}, "reduced already, or not computed yet"),
        start(Kind::kAllReduce, {4, 8}),
        start(Kind::kReduceScatter, {7, 10}, "reduced already, or not computed yet"),
        start(Kind::kReduceScatter, {8, 10})}},
      {"collectives move whole atoms",
       false,
       {gradient(2), gradient(0), start(Kind::kAllReduce, {2, 10}, "which cuts an atom at byte 2"),
        start(Kind::kReduceScatter, {0, 3}, "which cuts an atom at byte 3"),
        start(Kind::kAllReduce, {0, 5})}},
      {"what owners have is broadcast",
       false,
       {gradient(2), start(Kind::kReduce, {4, 8}), start(Kind::kReduceScatter, {8, 10}),
        start(Kind::kBroadcast, {4, 8}, "some of which is not reduced yet"),
        finish(Kind::kReduce, {4, 8}), finish(Kind::kReduceScatter, {8, 10}),
        start(Kind::kAllGather, {4, 8}, "some of which is reduced to an owner"),
        start(Kind::kBroadcast, {4, 10}, "some of which no owner has"),
        start(Kind::kBroadcast, {4, 8}), start(Kind::kAllGather, {8, 10}),
        finish(Kind::kBroadcast, {4, 8}), finish(Kind::kAllGather, {8, 10}), gradient(2),
        start(Kind::kReduceScatter, {4, 10}), finish(Kind::kReduceScatter, {4, 10}),
        start(Kind::kBroadcast, {4, 8}, "some of which no owner has"),
        start(Kind::kAllGather, {4, 10})}},
      {"gathers want what is reduced, once",
       false,
       {gradient(2), start(Kind::kReduceScatter, {4, 10}),
        start(Kind::kAllGather, {4, 10}, "some of which is not reduced yet"),
        finish(Kind::kReduceScatter, {4, 10}), start(Kind::kAllGather, {4, 6}),
        start(Kind::kAllGather, {5, 8}, "some of which is gathered already"),
        finish(Kind::kAllGather, {4, 6}),
        start(Kind::kAllGather, {4, 6}, "some of which is gathered already"),
        start(Kind::kAllGather, {6, 10})}},
      {"an all_reduce gathers, too",
       false,
       {gradient(2), start(Kind::kAllReduce, {4, 10}), finish(Kind::kAllReduce, {4, 10}),
        start(Kind::kAllGather, {4, 10}, "some of which is gathered already")}},
      {"parameters that are freed are gathered twice",
       true,
       {start(Kind::kAllGather, {0, 10}),
        start(Kind::kAllGather, {0, 4}, "some of which is gathered already"),
        finish(Kind::kAllGather, {0, 10}), forward(0),
        start(Kind::kAllGather, {0, 10}, "but layer 2 still holds them for forward"),
        start(Kind::kAllGather, {0, 4}),
        start(Kind::kAllGather, {0, 4}, "some of which is gathered already")}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    ParameterState state(three_layers(), one.frees_parameters);
    for (const Step& step : one.steps) {
      switch (step.what) {
        case Step::What::kGradient:
          state.gradient_ready(step.layer, 0);
          break;
        case Step::What::kForward:
          state.forward_finished(step.layer);
          break;
        case Step::What::kFinish:
          state.finish(step.collective);
          break;
        case Step::What::kStart: {
          const Status status = state.start(step.collective);
          const std::string message = status ? "" : status.error().message;
          EXPECT_EQ(message.empty(), std::string(step.error).empty()) << message;
          EXPECT_TRUE(message.ends_with(step.error)) << message;
          break;
        }
      }
    }
  }
}

TEST(ParameterState, KnowsWhatForwardAndBackwardMayUse) {
  ParameterState kept(three_layers(), false);
  EXPECT_TRUE(kept.has_for_forward({0, 10}));
  kept.gradient_ready(2, 7);
  EXPECT_TRUE(kept.has_for_forward({0, 4}));
  EXPECT_FALSE(kept.has_for_forward({4, 5}));
  kept.finish({Kind::kReduceScatter, {4, 10}});
  EXPECT_FALSE(kept.has_for_forward({4, 10}));
  kept.finish({Kind::kAllGather, {4, 10}});
  EXPECT_TRUE(kept.has_for_forward({0, 10}));
  EXPECT_TRUE(kept.has_for_backward({0, 10}));

  ParameterState freed(three_layers(), true);
  EXPECT_FALSE(freed.has_for_forward({0, 4}));
  EXPECT_TRUE(freed.has_for_forward({4, 4}));
  freed.finish({Kind::kAllGather, {0, 4}});
  EXPECT_TRUE(freed.has_for_forward({0, 4}));
  EXPECT_FALSE(freed.has_for_backward({0, 4}));
  freed.finish({Kind::kAllGather, {0, 4}});
  EXPECT_TRUE(freed.has_for_backward({0, 4}));
  freed.gradient_ready(0, 9);
  EXPECT_FALSE(freed.has_for_forward({0, 4}));
  EXPECT_FALSE(freed.has_for_backward({0, 4}));
}

TEST(ParameterState, CountsIterationsByLayer) {
  ParameterState state(three_layers(), false);
  EXPECT_EQ(state.iteration_of({0, 10}), -1);
  state.gradient_ready(2, 7);
  EXPECT_EQ(state.gradients_ps({0, 4}), -1);
  EXPECT_EQ(state.gradients_ps({2, 10}), 7);
  state.gradient_ready(0, 8);
  EXPECT_EQ(state.gradients_ps({2, 10}), 8);
  EXPECT_EQ(state.gradients_ps({4, 10}), 7);
  state.finish({Kind::kAllReduce, {0, 10}});
  state.gradient_ready(2, 20);
  EXPECT_EQ(state.iteration_of({4, 10}), 1);
  EXPECT_EQ(state.iteration_of({0, 4}), 0);
}

}  // namespace
}  // namespace pleach
