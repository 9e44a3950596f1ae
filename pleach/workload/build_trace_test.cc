#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/workload/memory.h"
#include "pleach/workload/strategy.h"
#include "pleach/workload/worker_passes.h"
#include "tests/support/chain.h"

namespace pleach {
namespace {

using support::chain;
using Kind = TraceNodeKind;

Trace build(const Workload& workload, const Strategy& strategy) {
  Result<Trace> trace = build_trace({.workload = workload, .strategy = strategy});
  EXPECT_TRUE(trace) << trace.error().message;
  const Status status = check_trace(*trace);
  EXPECT_TRUE(status) << status.error().message;
  return *trace;
}

std::vector<int32_t> waits(const WorkerTrace& worker, int32_t node) {
  std::vector<int32_t> result(worker.dependencies.begin() + worker.first_dependency[at(node)],
                              worker.dependencies.begin() + worker.first_dependency[at(node) + 1]);
  std::ranges::sort(result);
  return result;
}

// "C10" computation of 10 ps, "A8@tensor" all_reduce of 8 bytes, "F0" forward gate of layer 0, ...
std::string describe(const Trace& trace, const TraceNode& node) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  switch (node.kind) {
    case Kind::kCompute:
      return "C" + number(node.duration_ps);
    case Kind::kLoad:
      return "L" + number(node.duration_ps);
    case Kind::kStore:
      return "T" + number(node.duration_ps);
    case Kind::kSend:
      return (node.family < 0 ? "S" : "M") + number(node.size_bytes);
    case Kind::kReceive:
      return "R" + number(node.size_bytes);
    case Kind::kGradient:
      return "G" + number(node.gradient_group) + "." + number(node.layer);
    case Kind::kForwardGate:
      return "F" + number(node.gradient_group) + "." + number(node.layer);
    case Kind::kBackwardGate:
      return "B" + number(node.gradient_group) + "." + number(node.layer);
    case Kind::kCollective:
      break;
  }
  return std::string(to_text(node.collective)) + number(node.size_bytes) + "@" +
         trace.families[at(node.family)].name;
}

// "C10 C20(0)": nodes with what they wait for.
std::string describe(const Trace& trace, std::size_t worker) {
  std::string text;
  const WorkerTrace& own = trace.workers[worker];
  for (std::size_t node = 0; node < own.nodes.size(); ++node) {
    text += (node == 0 ? "" : " ") + describe(trace, own.nodes[node]);
    const std::vector<int32_t> before = waits(own, static_cast<int32_t>(node));
    for (std::size_t at = 0; at < before.size(); ++at) {
      text += (at == 0 ? "(" : ",") + std::to_string(before[at]);
    }
    text += before.empty() ? "" : ")";
  }
  return text;
}

// Longest path through the trace when communication takes no time.
int64_t longest_path_ps(const Trace& trace) {
  using Message = std::tuple<int32_t, int32_t, int32_t>;
  std::map<Message, int64_t> sent_ps;
  std::vector<std::vector<int64_t>> end_ps(trace.workers.size());
  int64_t last_ps = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t worker = 0; worker < trace.workers.size(); ++worker) {
      const WorkerTrace& own = trace.workers[worker];
      while (end_ps[worker].size() < own.nodes.size()) {
        const auto index = count_of(end_ps[worker]);
        const TraceNode& node = own.nodes[at(index)];
        int64_t start_ps = 0;
        for (const int32_t before : waits(own, index)) {
          start_ps = std::max(start_ps, end_ps[worker][at(before)]);
        }
        const auto self = static_cast<int32_t>(worker);
        if (node.kind == Kind::kReceive) {
          const auto found = sent_ps.find({node.peer, self, node.tag});
          if (found == sent_ps.end()) {
            break;
          }
          start_ps = std::max(start_ps, found->second);
        }
        if (node.kind == Kind::kSend) {
          sent_ps[{self, node.peer, node.tag}] = start_ps;
        }
        end_ps[worker].push_back(start_ps + node.duration_ps);
        last_ps = std::max(last_ps, end_ps[worker].back());
        moved = true;
      }
    }
  }
  for (std::size_t worker = 0; worker < trace.workers.size(); ++worker) {
    EXPECT_EQ(end_ps[worker].size(), trace.workers[worker].nodes.size()) << "worker " << worker;
  }
  return last_ps;
}

TEST(BuildTrace, DataParallelismIsOneWorkerWithGatesAndGradients) {
  Workload workload = chain(3, 2);
  workload.model.layers[1].tensors.clear();
  workload.model.layers[1].is_tied_to_first = true;
  const Trace trace = build(workload, {.data = 4, .micro_batches = 2});
  ASSERT_EQ(trace.workers.size(), 1U);
  EXPECT_EQ(trace.workers[0].ranks, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(describe(trace, 0),
            "F0.0 C10(0) F0.1(1) C10(1,2) F0.2(3) C10(3,4) C20(5) C20(6) C20(7) "
            "C10(8) C10(9) C10(10) C20(11) G0.2(12) C20(12) C20(14) G0.0(15)");
  ASSERT_EQ(trace.families.size(), 1U);
  EXPECT_EQ(trace.families[0].groups, (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}}));
  ASSERT_EQ(trace.gradient_groups.size(), 1U);
  const GradientGroup& group = trace.gradient_groups[0];
  EXPECT_EQ(group.name, "data, stage 0");
  EXPECT_EQ(group.rank_count, 4);
  ASSERT_EQ(group.layers.size(), 3U);
  EXPECT_EQ(group.layers[0].tensor_bytes, std::vector<int64_t>{400});
  EXPECT_TRUE(group.layers[1].tensor_bytes.empty());
  EXPECT_EQ(group.layers[1].forward_ps, 20);
  EXPECT_EQ(group.layers[1].backward_ps, 40);
  EXPECT_EQ(group.layers[1].weight_gradient_ps, 20);
}

TEST(BuildTrace, OneRankStillHasItsGradientGroup) {
  const Trace trace = build(chain(1), {});
  EXPECT_EQ(trace.families.size(), 1U);
  EXPECT_EQ(trace.gradient_groups.at(0).rank_count, 1);
}

TEST(BuildTrace, GatesBackwardWhereAsked) {
  const Workload workload = chain(2, 2);
  const Strategy strategy = {.micro_batches = 2};
  const Result<Trace> trace =
      build_trace({.workload = workload, .strategy = strategy, .backward_gates = true});
  ASSERT_TRUE(trace);
  EXPECT_EQ(describe(*trace, 0),
            "F0.0 C10(0) F0.1(1) C10(1,2) B0.1(3) C20(3,4) B0.0(5) C20(5,6) "
            "C10(7) C10(8) C20(9) G0.1(10) C20(10) G0.0(12)");
}

// (micro_batches + stages - 1) · (f + b), either schedule: Huang et al., sec. 2.3.
TEST(BuildTrace, PipelinesHaveTheBubbleOfTheClosedForm) {
  for (const int32_t stages : {1, 2, 3, 4, 7}) {
    for (const int32_t micro_batches : {1, 2, 3, 4, 8}) {
      for (const PipelineSchedule schedule :
           {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
        const Workload workload = chain(2 * stages, micro_batches);
        const Trace trace = build(
            workload,
            {.data = 2, .pipeline = stages, .micro_batches = micro_batches, .schedule = schedule});
        EXPECT_EQ(longest_path_ps(trace), (micro_batches + stages - 1) * 2 * (10 + 20));
      }
    }
  }
}

TEST(BuildTrace, PassesComeInTheOrderOfTheSchedule) {
  const auto text = [](const Strategy& strategy, int32_t stage) {
    std::string passes;
    for (const Pass& pass : stage_passes(strategy, stage)) {
      passes += (pass.is_forward ? "F" : "B") + std::to_string(pass.micro_batch);
    }
    return passes;
  };
  const Strategy gpipe = {.pipeline = 2, .micro_batches = 3, .schedule = PipelineSchedule::kGpipe};
  EXPECT_EQ(text(gpipe, 0), "F0F1F2B2B1B0");
  EXPECT_EQ(text(gpipe, 1), "F0F1F2B2B1B0");
  const Strategy alternating = {.pipeline = 3, .micro_batches = 4};
  EXPECT_EQ(text(alternating, 0), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(text(alternating, 1), "F0F1B0F2B1F3B2B3");
  EXPECT_EQ(text(alternating, 2), "F0B0F1B1F2B2F3B3");
  EXPECT_EQ(text({.pipeline = 9, .micro_batches = 2}, 0), "F0F1B0B1");
}

TEST(BuildTrace, OneForwardOneBackwardHoldsAtMostStagesLessStageActivations) {
  for (int32_t stages = 1; stages <= 5; ++stages) {
    for (int32_t micro_batches = 1; micro_batches <= 7; ++micro_batches) {
      for (int32_t stage = 0; stage < stages; ++stage) {
        for (const bool is_gpipe : {false, true}) {
          Strategy strategy = {.pipeline = stages, .micro_batches = micro_batches};
          strategy.schedule =
              is_gpipe ? PipelineSchedule::kGpipe : PipelineSchedule::kOneForwardOneBackward;
          std::set<int32_t> held;
          std::size_t most = 0;
          std::size_t backwards = 0;
          for (const Pass& pass : stage_passes(strategy, stage)) {
            if (pass.is_forward) {
              EXPECT_TRUE(held.insert(pass.micro_batch).second);
            } else {
              EXPECT_EQ(held.erase(pass.micro_batch), 1U) << "backward before forward";
              ++backwards;
            }
            most = std::max(most, held.size());
          }
          EXPECT_TRUE(held.empty());
          EXPECT_EQ(backwards, at(micro_batches));
          EXPECT_EQ(most, at(is_gpipe ? micro_batches : std::min(stages - stage, micro_batches)));
        }
      }
    }
  }
}

TEST(BuildTrace, StagesPassActivationsAndGradients) {
  const Workload workload = chain(2, 4);
  const Trace trace = build(workload, {.data = 2, .pipeline = 2, .micro_batches = 2});
  ASSERT_EQ(trace.workers.size(), 2U);
  EXPECT_EQ(trace.workers[0].ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(trace.workers[1].ranks, (std::vector<int32_t>{1, 3}));
  // 2 samples · 5 elements · 4 bytes.
  EXPECT_EQ(describe(trace, 0),
            "F0.0 C20(0) S40(1) C20(1) S40(3) R40 C40(3,5) R40 C40(6,7) G0.0(8)");
  EXPECT_EQ(describe(trace, 1),
            "R40 F1.0 C20(0,1) C40(2) S40(3) R40 C20(3,5) C40(6) G1.0(7) S40(7)");
  EXPECT_EQ(trace.gradient_groups.at(1).name, "data, stage 1");
  EXPECT_EQ(trace.gradient_groups[1].layers.at(0).model_layer, 1);
  EXPECT_EQ(trace.gradient_groups[1].workers, std::vector<int32_t>{1});
  EXPECT_EQ(trace.families[0].groups, (std::vector<std::vector<int32_t>>{{0, 2}, {1, 3}}));
}

// Two split layers with a replicated one behind: a block of Megatron-LM.
Workload megatron() {
  Workload workload = chain(3, 2);
  workload.model.layers[0].is_split = true;
  workload.model.layers[0].backward_sum_elements = 6;
  workload.model.layers[1].is_split = true;
  workload.model.layers[1].forward_sum_elements = 7;
  return workload;
}

TEST(BuildTrace, TensorParallelismSumsActivations) {
  const Trace trace = build(megatron(), {.data = 2, .tensor = 2});
  // 2 samples · 7 elements · 4 bytes forward, 6 backward; split layers take half as long.
  EXPECT_EQ(describe(trace, 0),
            "F0.0 C10(0) F0.1(1) C10(1,2) all_reduce56@tensor(3) F0.2(3) C20(4,5) "
            "C40(6) G0.2(7) C20(7) G0.1(9) C20(9) G0.0(11) all_reduce48@tensor(11)");
  EXPECT_EQ(trace.families[1].groups, (std::vector<std::vector<int32_t>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(trace.gradient_groups[0].rank_count, 2);
  EXPECT_EQ(trace.gradient_groups[0].layers[0].tensor_bytes, std::vector<int64_t>{200});
  EXPECT_EQ(trace.gradient_groups[0].layers[2].tensor_bytes, std::vector<int64_t>{400});
}

// One rank of a tensor group sends to all of the next stage's, and back.
TEST(BuildTrace, OutputsAreBroadcastFromOneRank) {
  const Workload workload = megatron();
  const Strategy pairs = {.data = 2, .tensor = 2, .pipeline = 3};
  Strategy strategy = pairs;
  strategy.multicast_outputs = true;
  const Trace plain = build(workload, pairs);
  const Trace trace = build(workload, strategy);
  ASSERT_EQ(trace.families.size(), plain.families.size() + 4);
  const std::vector<std::vector<int32_t>> expected[] = {{{0, 2, 3}, {6, 8, 9}},
                                                        {{2, 0, 1}, {8, 6, 7}},
                                                        {{2, 4, 5}, {8, 10, 11}},
                                                        {{4, 2, 3}, {10, 8, 9}}};
  for (std::size_t index = 0; index < 4; ++index) {
    const Family& family = trace.families[plain.families.size() + index];
    EXPECT_EQ(family.name, "pipeline");
    EXPECT_EQ(family.groups, expected[index]);
  }
  // In the same places, of the same size.
  for (std::size_t worker = 0; worker < 3; ++worker) {
    std::string text = describe(trace, worker);
    EXPECT_NE(text.find('M'), std::string::npos);
    std::ranges::replace(text, 'M', 'S');
    EXPECT_EQ(text, describe(plain, worker));
  }
  const Strategy one = {.data = 2, .pipeline = 3, .multicast_outputs = true};
  EXPECT_EQ(build(workload, one).families.size(), 1U);
  strategy.tensor_sequence = true;
  EXPECT_EQ(build_trace({.workload = workload, .strategy = strategy}).error().message,
            "strategy: outputs=multicast sends the whole of an output, of which each rank has a "
            "part with tensor_sequence=on");
}

TEST(BuildTrace, TensorSequenceScattersAndGathers) {
  const Trace trace = build(megatron(), {.tensor = 2, .tensor_sequence = true});
  EXPECT_EQ(describe(trace, 0),
            "F0.0 all_gather48@tensor C10(0,1) F0.1(2) C10(2,3) reduce_scatter56@tensor(4) "
            "F0.2(4) C10(5,6) C20(7) G0.2(8) all_gather56@tensor(8) C20(10) G0.1(11) C20(11) "
            "G0.0(13) reduce_scatter48@tensor(13)");
}

TEST(BuildTrace, SequenceParallelismExchangesAroundAttention) {
  Workload workload = chain(1, 2);
  workload.model.layers[0].sequence_exchange_elements = 16;
  const Trace trace = build(workload, {.data = 2, .sequence = 2});
  // Of one sample's 16 elements of 4 bytes, three quarters before attention, one after.
  EXPECT_EQ(describe(trace, 0),
            "F0.0 all_to_all48@sequence C10(0,1) all_to_all16@sequence(2) "
            "all_to_all16@sequence(3) C20(4) G0.0(5) all_to_all48@sequence(5)");
  EXPECT_EQ(trace.gradient_groups[0].rank_count, 4);  // the same parameters everywhere
  EXPECT_EQ(trace.families[0].groups, (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}}));
  EXPECT_EQ(trace.families[1].groups, (std::vector<std::vector<int32_t>>{{0, 1}, {2, 3}}));
}

// A dense layer, experts, a dense layer.
Workload experts() {
  Workload workload = chain(3);
  workload.model.layers[1].expert_count = 4;
  workload.model.layers[1].expert_exchange_elements = 10;
  return workload;
}

TEST(BuildTrace, ExpertsAreExchangedAndReducedApart) {
  const Trace trace = build(experts(), {.data = 4, .expert = 2});
  EXPECT_EQ(describe(trace, 0),
            "F0.0 C10(0) F1.1(1) all_to_all40@expert(1) C10(1,2,3) all_to_all40@expert(4) "
            "F0.2(4) C10(5,6) C20(7) G0.2(8) all_to_all40@expert(8) C20(8,10) "
            "all_to_all40@expert(11) G1.1(11) C20(12) G0.0(14)");
  std::map<std::string, std::vector<std::vector<int32_t>>> families;
  for (const Family& family : trace.families) {
    families[family.name] = family.groups;
  }
  EXPECT_EQ(families["data"], (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}}));
  EXPECT_EQ(families["expert"], (std::vector<std::vector<int32_t>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(families["expert data"], (std::vector<std::vector<int32_t>>{{0, 2}, {1, 3}}));
  EXPECT_EQ(trace.families.at(at(find_family(trace, FamilyRole::kExpert))).name, "expert");
  EXPECT_EQ(find_family(trace, FamilyRole::kTensor), -1);
  const GradientGroup& group = trace.gradient_groups.at(1);
  EXPECT_EQ(group.name, "expert data, stage 0");
  EXPECT_EQ(group.rank_count, 2);
  EXPECT_EQ(group.layers[1].tensor_bytes, std::vector<int64_t>{200});
  EXPECT_EQ(group.layers[1].exchange_bytes, 40);
  EXPECT_TRUE(trace.gradient_groups[0].layers[1].tensor_bytes.empty());
  EXPECT_EQ(trace.gradient_groups[0].layers[1].forward_ps, 10);
  // With every expert everywhere they are a layer like others.
  const Trace whole = build(experts(), {.data = 4});
  EXPECT_EQ(whole.gradient_groups.size(), 1U);
  EXPECT_EQ(whole.families.size(), 1U);
}

TEST(BuildTrace, PartsOfExchangesOverlap) {
  const Workload workload = experts();
  const Strategy strategy = {.data = 2, .expert = 2};
  const Result<Trace> trace =
      build_trace({.workload = workload, .strategy = strategy, .exchange_parts = {1, 3, 1}});
  ASSERT_TRUE(trace);
  ASSERT_TRUE(check_trace(*trace));
  EXPECT_EQ(describe(*trace, 0),
            "F0.0 C10(0) F1.1(1) all_to_all13@expert(1) all_to_all13@expert(1) "
            "all_to_all14@expert(1) C3(1,2,3) all_to_all13@expert(6) C3(4,6) "
            "all_to_all13@expert(8) C4(5,8) all_to_all14@expert(10) F0.2(10) C10(7,9,11,12) "
            "C20(13) G0.2(14) all_to_all13@expert(14) all_to_all13@expert(14) "
            "all_to_all14@expert(14) C6(14,16) all_to_all13@expert(19) C7(17,19) "
            "all_to_all13@expert(21) C7(18,21) all_to_all14@expert(23) G1.1(23) C20(20,22,24) "
            "G0.0(26)");
}

TEST(BuildTrace, WeightGradientsHideBehindLaterExchanges) {
  const Workload workload = experts();
  const Strategy strategy = {.data = 2, .expert = 2};
  const Result<Trace> trace =
      build_trace({.workload = workload, .strategy = strategy, .defer_weight_gradients = true});
  ASSERT_TRUE(trace);
  ASSERT_TRUE(check_trace(*trace));
  // The last layer's behind the first exchange of the experts, theirs behind the second; nothing
  // is left to hide the first layer's.
  EXPECT_EQ(describe(*trace, 0),
            "F0.0 C10(0) F1.1(1) all_to_all40@expert(1) C10(1,2,3) all_to_all40@expert(4) "
            "F0.2(4) C10(5,6) C10(7) all_to_all40@expert(8) C10(8) G0.2(10) C10(8,9,10) "
            "all_to_all40@expert(12) C10(12) G1.1(14) C20(13,14) G0.0(16)");
  const Workload dense = chain(2);
  const Result<Trace> plain =
      build_trace({.workload = dense, .strategy = {}, .defer_weight_gradients = true});
  EXPECT_EQ(describe(*plain, 0), describe(build(dense, {}), 0));
}

TEST(BuildTrace, StreamsWeightsOneLayerAhead) {
  const Workload workload = chain(3);
  // 400 bytes at 400 GB/s are 1 ns.
  const Trace trace = build(workload, {.data = 2, .stream_bytes_per_s = 400'000'000'000});
  EXPECT_EQ(describe(trace, 0),
            "L1000 C10(0) L1000 C10(1,2) L1000(1) C10(3,4) L1000(3) C20(5,6) T1000(7) L1000(5) "
            "C20(7,9) T1000(10) L1000(7) C20(10,12) T1000(13)");
  for (const GradientLayer& layer : trace.gradient_groups.at(0).layers) {
    EXPECT_TRUE(layer.tensor_bytes.empty());
  }
}

// Two stages, three layers: the second window has one layer. Worker 0 computes layers 0 and 2.
TEST(BuildTrace, StreamedWindowsAreVisitedByAllMicroBatches) {
  const Workload workload = chain(3, 2);
  const Trace trace =
      build(workload, {.pipeline = 2, .micro_batches = 2, .stream_bytes_per_s = 400'000'000'000});
  EXPECT_EQ(describe(trace, 0),
            "L1000 C10(0) S20(1) C10(1) S20(3) "
            "R20 L1000 C10(3,5,6) R20 C10(7,8) "
            "L1000(3) C20(9,10) S20(11) C20(11) T1000(13) S20(13) "
            "R20 L1000(9) C20(13,16,17) R20 C20(18,19) T1000(20)");
  EXPECT_EQ(describe(trace, 1),
            "R20 L1000 C10(0,1) S20(2) R20 C10(2,4) S20(5) "
            "R20 L1000 C20(5,7,8) S20(9) R20 C20(9,11) T1000(12) S20(12)");
}

TEST(BuildTrace, TiedTensorsAreSummedAcrossStages) {
  Workload workload = chain(3);
  workload.model.layers[2].tensors.clear();
  workload.model.layers[2].is_tied_to_first = true;
  const Trace trace = build(workload, {.data = 2, .pipeline = 3});
  EXPECT_EQ(describe(trace, 0),
            "F0.0 C10(0) S20(1) R20 C20(1,3) all_reduce400@embedding(4) G0.0(5)");
  EXPECT_EQ(describe(trace, 2),
            "R20 F3.0 C10(0,1) C20(2) all_reduce400@embedding(3) G3.0(4) S20(3)");
  EXPECT_EQ(trace.families.back().name, "embedding");
  EXPECT_EQ(trace.families.back().groups, (std::vector<std::vector<int32_t>>{{0, 2}, {3, 5}}));
  EXPECT_TRUE(trace.gradient_groups.at(2).layers.at(0).tensor_bytes.empty());
  EXPECT_EQ(trace.gradient_groups.at(3).name, "tied, stage 2");
  EXPECT_EQ(trace.gradient_groups.at(3).layers.at(0).tensor_bytes, std::vector<int64_t>{400});
  // In one stage there is one copy.
  const Trace whole = build(workload, {.data = 2});
  EXPECT_EQ(whole.families.size(), 1U);
  EXPECT_TRUE(whole.gradient_groups[0].layers[2].tensor_bytes.empty());
}

TEST(BuildTrace, SlowRanksSlowTheirReplicaStage) {
  const Workload workload = chain(2);
  const Strategy strategy = {.data = 3, .tensor = 1, .pipeline = 2};
  TraceRequest request = {.workload = workload, .strategy = strategy};
  request.slowness = {1, 1, 1, 1.5, 1, 1};  // rank 3: replica 1, stage 1
  const Result<Trace> merged = build_trace(request);
  ASSERT_TRUE(merged);
  ASSERT_TRUE(check_trace(*merged));
  ASSERT_EQ(merged->workers.size(), 4U);
  EXPECT_EQ(merged->workers[0].ranks, (std::vector<int32_t>{0, 4}));
  EXPECT_EQ(merged->workers[1].ranks, (std::vector<int32_t>{1, 5}));
  EXPECT_EQ(merged->workers[2].ranks, std::vector<int32_t>{2});
  EXPECT_EQ(merged->workers[3].ranks, std::vector<int32_t>{3});
  EXPECT_EQ(describe(*merged, 2), describe(*merged, 0));
  EXPECT_EQ(describe(*merged, 3), "R20 F1.0 C15(0,1) C30(2) G1.0(3) S20(3)");
  EXPECT_EQ(merged->gradient_groups[1].workers, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(merged->gradient_groups[1].layers[0].backward_ps, 30);
  request.merge_alike = false;
  const Result<Trace> apart = build_trace(request);
  ASSERT_TRUE(apart);
  ASSERT_TRUE(check_trace(*apart));
  EXPECT_EQ(apart->workers.size(), 6U);
}

TEST(BuildTrace, NumbersRanksByPlacement) {
  const Workload workload = megatron();
  Strategy strategy = {.data = 2, .tensor = 2, .pipeline = 3};
  strategy.placement = {ParallelDimension::kData, ParallelDimension::kPipeline,
                        ParallelDimension::kSequence, ParallelDimension::kTensor};
  const Trace trace = build(workload, strategy);
  EXPECT_EQ(trace.families[0].groups,
            (std::vector<std::vector<int32_t>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(trace.families[1].groups,
            (std::vector<std::vector<int32_t>>{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(trace.workers[1].ranks, (std::vector<int32_t>{2, 3, 8, 9}));
}

// Stages of two ranks: 5 and 0, 2 and 6, then 1 and 4 of the other replica, 3 and 7; no 8, but 9.
TEST(BuildTrace, PutsRanksWhereAListSays) {
  const Workload workload = megatron();
  Strategy strategy = {.data = 2, .tensor = 2, .pipeline = 2};
  strategy.rank_of_place = {5, 0, 2, 6, 1, 4, 3, 9};
  const Trace trace = build(workload, strategy);
  EXPECT_EQ(trace.rank_count, 10);
  EXPECT_EQ(trace.families[0].groups,
            (std::vector<std::vector<int32_t>>{{0, 4}, {1, 5}, {2, 3}, {6, 9}}));
  EXPECT_EQ(trace.families[1].groups,
            (std::vector<std::vector<int32_t>>{{0, 5}, {1, 4}, {2, 6}, {3, 9}}));
  // What one stage sends goes to the rank of the same place in the next.
  EXPECT_EQ(trace.workers[0].ranks, (std::vector<int32_t>{5, 0, 1, 4}));
  EXPECT_EQ(trace.workers[1].ranks, (std::vector<int32_t>{2, 6, 3, 9}));
  TraceRequest request = {.workload = workload, .strategy = strategy};
  request.slowness.assign(10, 1);
  request.slowness[4] = 2;
  request.slowness[7] = 3;  // does nothing
  const Result<Trace> slowed = build_trace(request);
  ASSERT_TRUE(slowed && check_trace(*slowed));
  ASSERT_EQ(slowed->workers.size(), 4U);
  EXPECT_EQ(slowed->workers[2].ranks, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(slowed->workers[0].nodes[1].duration_ps * 2, slowed->workers[2].nodes[1].duration_ps);
  strategy.rank_of_place[0] = 9;
  EXPECT_EQ(build_trace({.workload = workload, .strategy = strategy}).error().message,
            "strategy: placement: rank 9 is there twice");
}

// A list of what an order says is that order.
TEST(BuildTrace, AListOfAnOrderIsTheOrder) {
  const Workload workload = megatron();
  Strategy ordered = {.data = 3, .tensor = 2, .pipeline = 3};
  std::ranges::sort(ordered.placement);
  do {
    Strategy listed = ordered;
    listed.placement = Strategy().placement;
    for (int32_t place = 0; place < ordered.rank_count(); ++place) {
      const std::map<ParallelDimension, std::pair<int32_t, int32_t>> digits = {
          {ParallelDimension::kTensor, {place % 2, 2}},
          {ParallelDimension::kSequence, {0, 1}},
          {ParallelDimension::kPipeline, {place / 2 % 3, 3}},
          {ParallelDimension::kData, {place / 6, 3}}};
      int32_t rank = 0;
      for (std::size_t digit = 4; digit-- > 0;) {
        const auto [value, size] = digits.at(ordered.placement[digit]);
        rank = rank * size + value;
      }
      listed.rank_of_place.push_back(rank);
    }
    const Trace one = build(workload, ordered), other = build(workload, listed);
    ASSERT_EQ(one.families.size(), other.families.size());
    for (std::size_t family = 0; family < one.families.size(); ++family) {
      EXPECT_EQ(one.families[family].groups, other.families[family].groups) << to_text(ordered);
    }
    for (std::size_t worker = 0; worker < one.workers.size(); ++worker) {
      EXPECT_EQ(describe(one, worker), describe(other, worker));
      EXPECT_EQ(
          std::set<int32_t>(one.workers[worker].ranks.begin(), one.workers[worker].ranks.end()),
          std::set<int32_t>(other.workers[worker].ranks.begin(),
                            other.workers[worker].ranks.end()));
    }
  } while (std::ranges::next_permutation(ordered.placement).found);
}

TEST(BuildTrace, NamesWhatTheModelLacks) {
  const struct {
    Strategy strategy;
    std::string message;
  } cases[] = {
      {{.tensor = 2}, "chain has no layers that tensor parallelism splits (tp=2)"},
      {{.sequence = 2}, "chain has no layers that sequence parallelism splits (sp=2)"},
      {{.data = 2, .expert = 2}, "chain has no experts that expert parallelism spreads (ep=2)"},
      {{.pipeline = 4}, "chain has 3 blocks, too few for 4 pipeline stages"},
      {{.micro_batches = 4}, "chain: a batch of 6 does not divide into 4 micro-batches"},
      {{.data = 0}, "strategy: dp=0 must be at least 1"},
      {{.data = 65536, .tensor = 65536}, "strategy dp=65536,tp=65536: more ranks than 2147483647"},
      {{.zero = 4}, "strategy: there is no ZeRO stage 4 or no bandwidth of 0 bytes/s"},
      {{.stream_bytes_per_s = 1, .placement = {}},
       "strategy: the placement does not name each dimension once"},
  };
  const Workload workload = chain(3, 6);
  for (const auto& one : cases) {
    const Result<Trace> trace = build_trace({.workload = workload, .strategy = one.strategy});
    ASSERT_FALSE(trace) << one.message;
    EXPECT_EQ(trace.error().message, one.message);
    EXPECT_EQ(memory_use(workload, one.strategy).state_bytes, INT64_MAX);
  }
}

struct BadRequest {
  std::string message;
  std::vector<double> slowness = {};
  std::vector<int32_t> parts = {};
  int32_t expert = 1;
  int32_t sequence = 1;
  int64_t elements = 10;
  int64_t forward_ps = 10;
};

TEST(BuildTrace, NamesWhatTheRequestHasWrong) {
  const BadRequest cases[] = {
      {.message = "slowness of 1 ranks for 6 ranks", .slowness = {1}},
      {.message = "rank 1: slowness of 0 is not in (0, 1000000]", .slowness = {1, 0, 1, 1, 1, 1}},
      {.message = "chain: exchange parts of 2 layers for 3 layers", .parts = {1, 1}},
      {.message = "chain, layer l1: an exchange in 0 parts", .parts = {1, 0, 1}},
      {.message = "chain, layer l1: ep=3 does not divide 4 experts", .expert = 3},
      {.message = "chain, layer l0: sp=3 does not divide the 8 elements that it exchanges",
       .sequence = 3},
      {.message = "chain, layer l1: buffers beyond 2^60 bytes or times beyond 26 days",
       .elements = (int64_t{1} << 59) - 1},
      {.message = "chain, layer l0: buffers beyond 2^60 bytes or times beyond 26 days",
       .forward_ps = kLongestPs / 8 * 9},
      {.message = "chain: a replica 1000000 times as slow computes for over 26 days",
       .slowness = {1, 1e6, 1, 1, 1, 1},
       .forward_ps = 3'000'000'000'000},
  };
  for (const BadRequest& one : cases) {
    Workload workload = experts();
    workload.model.layers[0].sequence_exchange_elements = 8;
    workload.model.layers[1].expert_exchange_elements = one.elements;
    std::get<MeasuredTimes>(workload.times).layers[0].forward_ps = one.forward_ps;
    const Strategy strategy = {
        .data = one.sequence == 1 ? 6 : 2, .sequence = one.sequence, .expert = one.expert};
    const Result<Trace> trace = build_trace({.workload = workload,
                                             .strategy = strategy,
                                             .slowness = one.slowness,
                                             .exchange_parts = one.parts});
    ASSERT_FALSE(trace) << one.message;
    EXPECT_EQ(trace.error().message, one.message);
  }
}

// The slowest stage of the best cut, by trying all.
int64_t best_cut(const std::vector<int64_t>& times, std::size_t from, int32_t stages) {
  if (stages == 1) {
    return std::accumulate(times.begin() + static_cast<std::ptrdiff_t>(from), times.end(),
                           int64_t{0});
  }
  int64_t best = INT64_MAX;
  int64_t sum = 0;
  for (std::size_t end = from + 1; end + at(stages) - 1 <= times.size(); ++end) {
    sum += times[end - 1];
    best = std::min(best, std::max(sum, best_cut(times, end, stages - 1)));
  }
  return best;
}

TEST(BuildTrace, CutsStagesSoThatTheSlowestComputesLeast) {
  Rng rng(3);
  for (int32_t round = 0; round < 300; ++round) {
    const auto blocks = static_cast<int32_t>(1 + rng.below(8));
    const auto stages = static_cast<int32_t>(1 + rng.below(static_cast<uint64_t>(blocks)));
    Workload workload = chain(blocks);
    std::vector<int64_t> times;
    for (LayerTimes& layer : std::get<MeasuredTimes>(workload.times).layers) {
      layer = {static_cast<int64_t>(rng.below(round % 2 == 0 ? 3 : 1000)), 0, 0};
      times.push_back(layer.forward_ps);
    }
    const Trace trace = build(workload, {.pipeline = stages});
    ASSERT_EQ(trace.workers.size(), at(stages)) << "round " << round;
    int64_t slowest = 0;
    for (const GradientGroup& group : trace.gradient_groups) {
      int64_t sum = 0;
      for (const GradientLayer& layer : group.layers) {
        sum += layer.forward_ps;
      }
      slowest = std::max(slowest, sum);
    }
    EXPECT_EQ(slowest, best_cut(times, 0, stages)) << "round " << round;
  }
}

// Random strategies on a model with everything: the trace is sound, all ranks are there once, and
// every family's groups partition them (but those of tied tensors, which two stages hold).
TEST(BuildTrace, IsSoundForRandomStrategies) {
  Rng rng(11);
  const auto draw = [&](uint64_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  for (int32_t round = 0; round < 300; ++round) {
    Workload workload = chain(6, 12);
    for (std::size_t layer = 1; layer < 5; ++layer) {
      ModelLayer& one = workload.model.layers[layer];
      one.is_split = layer % 2 == 0;
      one.forward_sum_elements = one.is_split ? 7 : 0;
      one.backward_sum_elements = one.is_split ? 9 : 0;
      one.sequence_exchange_elements = layer == 1 || draw(2) == 0 ? 12 : 0;
      one.expert_count = layer == 3 || draw(4) == 0 ? 12 : 0;
      one.expert_exchange_elements = one.expert_count;
    }
    workload.model.layers[5].is_tied_to_first = draw(2) == 0;
    const std::vector<int32_t> divisors = {1, 2, 3, 4, 6, 12};
    Strategy strategy = {.tensor = 1 + draw(3),
                         .pipeline = 1 + draw(6),
                         .sequence = 1 + draw(3),
                         .expert = 1 + draw(4),
                         .micro_batches = divisors[at(draw(6))],
                         .schedule = static_cast<PipelineSchedule>(draw(2)),
                         .tensor_sequence = draw(2) == 0,
                         .recompute = draw(2) == 0,
                         .multicast_outputs = draw(2) == 0,
                         .stream_bytes_per_s = draw(4) == 0 ? 1'000'000'000 : 0};
    strategy.data = strategy.expert * (1 + draw(3));
    strategy.multicast_outputs &= !strategy.tensor_sequence;
    std::swap(strategy.placement[0], strategy.placement[at(draw(4))]);
    std::swap(strategy.placement[1], strategy.placement[at(draw(4))]);
    TraceRequest request = {.workload = workload,
                            .strategy = strategy,
                            .merge_alike = draw(2) == 0,
                            .defer_weight_gradients = draw(2) == 0,
                            .backward_gates = draw(2) == 0};
    if (draw(2) == 0) {
      for (int32_t rank = 0; rank < strategy.rank_count(); ++rank) {
        request.slowness.push_back(draw(8) == 0 ? 2.0 : 1.0);
      }
    }
    if (draw(2) == 0) {
      request.exchange_parts = {1, 1 + draw(3), 1 + draw(3), 1 + draw(3), 1, 1};
    }
    const std::string where = "round " + std::to_string(round) + ": " + to_text(strategy);
    const Result<Trace> trace = build_trace(request);
    ASSERT_TRUE(trace) << where << ": " << trace.error().message;
    const Status status = check_trace(*trace);
    ASSERT_TRUE(status) << where << ": " << status.error().message;
    std::vector<int32_t> all;
    for (const WorkerTrace& worker : trace->workers) {
      all.insert(all.end(), worker.ranks.begin(), worker.ranks.end());
    }
    std::ranges::sort(all);
    std::vector<int32_t> expected(at(strategy.rank_count()));
    std::iota(expected.begin(), expected.end(), 0);
    ASSERT_EQ(all, expected) << where;
    ASSERT_FALSE(trace->families.empty()) << where;
    for (const Family& family : trace->families) {
      std::size_t ranks = 0;
      for (const std::vector<int32_t>& group : family.groups) {
        ranks += group.size();
      }
      if (family.name != "embedding" && family.name != "pipeline") {
        EXPECT_EQ(ranks, at(trace->rank_count)) << where << family.name;
      }
    }
    EXPECT_GT(longest_path_ps(*trace), 0) << where;
  }
}

}  // namespace
}  // namespace pleach
