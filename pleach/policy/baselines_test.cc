// What the baselines put on the wire, and in which order, on models small enough to follow by hand.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

// Every collective takes 1 ps per byte.
class OnePerByte : public CostModel {
 public:
  bool has(CollectiveKind /*kind*/) const override { return true; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t bytes) const override { return bytes; }
};

struct Wire {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ByteRange range;
  bool operator==(const Wire&) const = default;
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const Wire& wire, std::ostream* out) {
  *out << to_text(wire.kind) << " [" << wire.range.begin << ", " << wire.range.end << ")";
}

// The log of the last two iterations, as far as `keep` wants it.
template <typename Keep>
std::vector<Wire> wire_of(const TrainingProfile& profile, const std::string& spec, Keep keep) {
  const OnePerByte costs;
  auto policy = create_policy(spec, {.profile = profile, .costs = costs});
  EXPECT_TRUE(policy) << policy.error().message;
  const auto result = rehearse(profile, costs, **policy, {.keep_log = true});
  if (!result) {
    ADD_FAILURE() << result.error().message;
    return {};
  }
  EXPECT_TRUE(result->steady);
  std::vector<Wire> wire;
  for (const HostedCollective& one : result->log) {
    if (keep(one, result->iterations)) {
      wire.push_back({one.what.kind, one.what.range});
    }
  }
  return wire;
}

// The collectives of the last iteration whose all have finished.
std::vector<Wire> last_complete(const TrainingProfile& profile, const std::string& spec) {
  return wire_of(profile, spec, [](const HostedCollective& one, int32_t iterations) {
    return one.iteration == iterations - 2;
  });
}

std::vector<Wire> all_reduces(const std::vector<ByteRange>& ranges) {
  std::vector<Wire> wire;
  for (const ByteRange& range : ranges) {
    wire.push_back({CollectiveKind::kAllReduce, range});
  }
  return wire;
}

// Gradients of layer 1 come at 10, those of layer 0 at 60: two tensors fit between, the third is
// sent rather than nothing.
TEST(Prophet, FillsTheGapWithABlock) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {10}, .forward_ps = 5, .backward_ps = 50},
                    {.tensor_bytes = {20, 20, 20}, .forward_ps = 5, .backward_ps = 10}};
  EXPECT_EQ(last_complete(profile, "prophet"), all_reduces({{10, 50}, {50, 70}, {0, 10}}));
}

// The predicted gap spans a layer without gradients, and one more tensor fits.
TEST(Prophet, CountsLayersWithoutGradients) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {10}, .forward_ps = 5, .backward_ps = 50},
                    {.tensor_bytes = {}, .forward_ps = 5, .backward_ps = 10},
                    {.tensor_bytes = {20, 20, 20}, .forward_ps = 5, .backward_ps = 10}};
  EXPECT_EQ(last_complete(profile, "prophet"), all_reduces({{10, 70}, {0, 10}}));
}

// Layer 2 at 10, layer 1 at 50, layer 0 at 150. What layer 2 has left joins the block of layer 1,
// though other bytes lie between.
TEST(Prophet, JoinsWhatIsLeftOfEarlierGradients) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {8}, .forward_ps = 5, .backward_ps = 100},
                    {.tensor_bytes = {5, 5}, .forward_ps = 5, .backward_ps = 40},
                    {.tensor_bytes = {30, 30, 30}, .forward_ps = 5, .backward_ps = 10}};
  EXPECT_EQ(last_complete(profile, "prophet"),
            all_reduces({{18, 48}, {48, 78}, {8, 18}, {78, 108}, {0, 8}}));
}

// Gradients at 20, 40, 60, 80 after a forward of 40; ticks every 100. Training falls into step
// with the ticks, which then find layers 3 and 2, and layers 1 and 0.
TEST(Horovod, FusesWhatACycleFindsUpToTheBuffer) {
  TrainingProfile profile;
  profile.layers.assign(4, {.tensor_bytes = {4}, .forward_ps = 10, .backward_ps = 20});
  EXPECT_EQ(last_complete(profile, "horovod,cycle=100ps,fusion=8,negotiation=5ps"),
            all_reduces({{8, 16}, {0, 8}}));
  EXPECT_EQ(last_complete(profile, "horovod,cycle=100ps,fusion=7,negotiation=5ps"),
            all_reduces({{12, 16}, {8, 12}, {4, 8}, {0, 4}}));
}

// A policy told by hand: what it starts at each time, and when it asks to be woken.
class ByHand {
 public:
  ByHand(const TrainingProfile& profile, const std::string& spec) {
    auto policy = create_policy(spec, {.profile = profile, .costs = costs_});
    EXPECT_TRUE(policy) << policy.error().message;
    policy_ = std::move(*policy);
  }
  void gradient(int32_t layer, int64_t now_ps) {
    policy_->observe({EventKind::kGradientReady, now_ps, layer});
  }
  void finished(int32_t number, int64_t now_ps) {
    policy_->observe({EventKind::kCollectiveFinished, now_ps, number});
  }
  std::vector<ByteRange> started(int64_t now_ps) {
    PolicyActions actions;
    policy_->decide(now_ps, actions);
    wake_ps = actions.wake_ps;
    std::vector<ByteRange> ranges;
    for (const PolicyCollective& one : actions.start) {
      ranges.push_back(one.range);
    }
    return ranges;
  }
  int64_t wake_ps = -1;

 private:
  OnePerByte costs_;
  std::unique_ptr<Policy> policy_;
};

using Ranges = std::vector<ByteRange>;

// Four layers of 4 bytes. Negotiation takes 40 of a cycle of 10, so that cycles begin at 0, 40, 80,
// ..., and what one finds travels when it has been agreed on, as the next one begins.
TEST(Horovod, NegotiatesBesideTheWireAndAtThePaceOfNegotiation) {
  TrainingProfile profile;
  profile.layers.assign(4, {.tensor_bytes = {4}});
  ByHand horovod(profile, "horovod,cycle=10ps,negotiation=40ps");
  horovod.gradient(3, 1);
  EXPECT_EQ(horovod.started(1), Ranges{});
  EXPECT_EQ(horovod.wake_ps, 40);
  horovod.gradient(2, 5);
  EXPECT_EQ(horovod.started(5), Ranges{});
  EXPECT_EQ(horovod.started(40), Ranges{});
  EXPECT_EQ(horovod.wake_ps, 80);
  horovod.gradient(1, 50);
  EXPECT_EQ(horovod.started(50), Ranges{});
  EXPECT_EQ(horovod.started(80), (Ranges{{8, 16}}));
  EXPECT_EQ(horovod.wake_ps, 120);
  // A real timer is late: the thread does what is due, and its next cycle follows this one.
  EXPECT_EQ(horovod.started(125), (Ranges{{4, 8}}));
  horovod.gradient(0, 127);
  EXPECT_EQ(horovod.started(127), Ranges{});
  EXPECT_EQ(horovod.wake_ps, 160);
  EXPECT_EQ(horovod.started(170), Ranges{});
  EXPECT_EQ(horovod.wake_ps, 210);
  EXPECT_EQ(horovod.started(211), (Ranges{{0, 4}}));
}

// Two partitions of 10 have credit, and hold it from the start of their negotiation: one negotiates
// while another travels.
TEST(ByteScheduler, NegotiatesWithinItsCreditBesideTheWire) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {40}}};
  profile.atom_bytes.assign(8, 5);
  ByHand scheduler(profile, "byte_scheduler,partition=10,credit=20,negotiation=7ps");
  scheduler.gradient(0, 0);
  EXPECT_EQ(scheduler.started(0), Ranges{});
  EXPECT_EQ(scheduler.wake_ps, 7);
  EXPECT_EQ(scheduler.started(7), (Ranges{{0, 10}, {10, 20}}));
  scheduler.finished(0, 17);
  EXPECT_EQ(scheduler.started(17), Ranges{});
  EXPECT_EQ(scheduler.wake_ps, 24);
  scheduler.finished(1, 27);
  EXPECT_EQ(scheduler.started(27), (Ranges{{20, 30}}));  // woken late
  EXPECT_EQ(scheduler.wake_ps, 34);
  EXPECT_EQ(scheduler.started(34), (Ranges{{30, 40}}));
}

TEST(ByteScheduler, SendsUrgentPartitionsFirstWithinItsCredit) {
  TrainingProfile profile;
  profile.layers = {{.tensor_bytes = {25}, .forward_ps = 1, .backward_ps = 15},
                    {.tensor_bytes = {40}, .forward_ps = 1, .backward_ps = 1}};
  profile.atom_bytes.assign(13, 5);
  // When layer 0's gradients come at 16, what is under way is not stopped: 1 or 2 partitions.
  EXPECT_EQ(last_complete(profile, "byte_scheduler,partition=10,credit=0"),
            all_reduces({{25, 35}, {35, 45}, {0, 10}, {10, 20}, {20, 25}, {45, 55}, {55, 65}}));
  EXPECT_EQ(last_complete(profile, "byte_scheduler,partition=10,credit=20"),
            all_reduces({{25, 35}, {35, 45}, {45, 55}, {0, 10}, {10, 20}, {20, 25}, {55, 65}}));
}

// Three groups of 4 bytes; computation is long. The tail of the log is one iteration: gathered one
// group ahead in forward and in backward.
TEST(Fsdp, GathersOneGroupAhead) {
  TrainingProfile profile;
  profile.layers.assign(3, {.tensor_bytes = {4}, .forward_ps = 100, .backward_ps = 200});
  const auto wire = [](CollectiveKind kind, int64_t group) {
    return Wire{kind, {4 * group, 4 * group + 4}};
  };
  const auto gather = [&](int64_t group) { return wire(CollectiveKind::kAllGather, group); };
  const auto scatter = [&](int64_t group) { return wire(CollectiveKind::kReduceScatter, group); };
  const auto everything = [](const HostedCollective& /*one*/, int32_t /*iterations*/) {
    return true;
  };
  std::vector<Wire> log = wire_of(profile, "fsdp,bucket=0", everything);
  ASSERT_GE(log.size(), 9U);
  EXPECT_EQ(std::vector<Wire>(log.end() - 9, log.end()),
            (std::vector<Wire>{gather(0), gather(1), gather(2), gather(2), gather(1), scatter(2),
                               gather(0), scatter(1), scatter(0)}));
  log = wire_of(profile, "fsdp,bucket=0,reshard_after_forward=0", everything);
  ASSERT_GE(log.size(), 6U);
  EXPECT_EQ(
      std::vector<Wire>(log.end() - 6, log.end()),
      (std::vector<Wire>{gather(0), gather(1), gather(2), scatter(2), scatter(1), scatter(0)}));
}

// As fully_shard is used: a block travels as a whole, whatever its size, and none is cut.
TEST(Fsdp, GathersWholeBlocks) {
  TrainingProfile profile;
  profile.layers.assign(5, {.tensor_bytes = {4}, .forward_ps = 100, .backward_ps = 200});
  for (const std::size_t layer : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    profile.layers[layer].continues_block = true;
  }
  int whole = 0;
  for (const Wire& one : wire_of(profile, "fsdp", [](const auto&, int32_t) { return true; })) {
    EXPECT_TRUE(one.range == (ByteRange{0, 12}) || one.range == (ByteRange{12, 20}));
    ++whole;
  }
  EXPECT_GE(whole, 6);
}

TEST(Sequential, CutsTheModelAfterBackward) {
  TrainingProfile profile;
  profile.layers.assign(2, {.tensor_bytes = {4}, .forward_ps = 1, .backward_ps = 1});
  profile.atom_bytes.assign(8, 1);
  EXPECT_EQ(last_complete(profile, "sequential"), all_reduces({{0, 8}}));
  EXPECT_EQ(last_complete(profile, "sequential,bucket=3"), all_reduces({{0, 3}, {3, 6}, {6, 8}}));
}

}  // namespace
}  // namespace pleach
