// Lanes for streams that come together: held to a search that knows nothing but switches.
#include "pleach/network/joint_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/switch_passes.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"
#include "tests/support/level_jobs.h"
#include "tests/support/random_schedules.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

using support::shared;

// Whether streams route on some lanes, each tried with each; none: that would be too many.
class BruteForce {
 public:
  BruteForce(const Topology& topology, const std::vector<Job>& jobs)
      : topology_(topology), cores_(topology), inside_(topology.nodes().size()) {
    for (const Job& job : jobs) {
      Schedule schedule = *job.schedule;
      EXPECT_TRUE(fill_routes(schedule, topology));
      const auto lowered =
          LoweredSchedule::create(topology, shared(std::move(schedule)), {}, false);
      EXPECT_TRUE(lowered);
      for (const LoweredConnection& connection : (*lowered)->connections()) {
        streams_.push_back(connection.passes.empty() ? switch_passes(topology, connection.links)
                                                     : connection.passes);
      }
    }
  }

  std::optional<bool> routes() {
    const bool found = place(0);
    return left_ > 0 ? std::optional(found) : std::nullopt;
  }

 private:
  bool place(std::size_t stream) {
    if (stream == streams_.size()) {
      return true;
    }
    std::set<LinkId> wide;
    for (const SwitchPass& pass : streams_[stream]) {
      for (const auto& links : {pass.inputs, pass.outputs}) {
        std::ranges::copy_if(links, std::inserter(wide, wide.end()),
                             [&](LinkId link) { return topology_.link(link).lanes > 1; });
      }
    }
    std::map<LinkId, int32_t> lanes;
    return choose(stream, {wide.begin(), wide.end()}, lanes);
  }
  bool choose(std::size_t stream, std::vector<LinkId> open, std::map<LinkId, int32_t>& lanes) {
    if (open.empty()) {
      return try_on(stream, lanes);
    }
    const LinkId link = open.back();
    open.pop_back();
    for (int32_t lane = 0; lane < topology_.link(link).lanes; ++lane) {
      lanes[link] = lane;
      if (choose(stream, open, lanes)) {
        return true;
      }
    }
    return false;
  }
  bool try_on(std::size_t stream, const std::map<LinkId, int32_t>& lanes) {
    const auto lane_of = [&](LinkId link) {
      const auto found = lanes.find(link);
      return found == lanes.end() ? 0 : found->second;
    };
    const auto before = inside_;
    bool fits = --left_ > 0;
    for (const SwitchPass& pass : streams_[stream]) {
      inside_[pass.node.index()].push_back(cores_.flow_of(pass, lane_of));
    }
    for (const SwitchPass& pass : streams_[stream]) {
      fits = fits && carries(pass.node);
    }
    const bool found = fits && place(stream + 1);
    inside_ = before;
    return found;
  }
  bool carries(NodeId node) {
    std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> key;
    for (const PortFlow& flow : inside_[node.index()]) {
      key.emplace_back(flow.inputs, flow.outputs);
    }
    const auto [known, is_new] = known_.try_emplace({node, key}, false);
    if (is_new) {
      known->second = cores_.of(node)->conflict(inside_[node.index()]).empty();
    }
    return known->second;
  }

  const Topology& topology_;
  const SwitchCores cores_;
  std::vector<std::vector<SwitchPass>> streams_;
  std::vector<std::vector<PortFlow>> inside_;  // by node
  std::map<std::pair<NodeId, std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>>>,
           bool>
      known_;
  int32_t left_ = 20'000;
};

struct Drawn {
  support::TwoLevels levels;
  std::vector<Job> jobs;
};

// Groups none of which shares a rank with another, each of one stream, at times as they come.
Drawn draw(Rng& rng) {
  Drawn drawn;
  const int32_t leaves = 2 + support::pick(rng, 3);
  drawn.levels = {.ranks = leaves * (2 + support::pick(rng, 4)),
                  .leaves = leaves,
                  .switch_model = rng.below(4) == 0 ? "fred" : "fred,middle=2",
                  .trunk_lanes = 2 + support::pick(rng, 3)};
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < drawn.levels.ranks; ++rank) {
    ranks.push_back(rank);
  }
  for (std::size_t left = ranks.size(); left > 1; --left) {
    std::swap(ranks[left - 1], ranks[rng.below(left)]);
  }
  const int64_t latest_ps = rng.below(2) == 0 ? 0 : 20'000'000;
  for (int32_t count = 2 + support::pick(rng, 4); count > 0 && ranks.size() > 1; --count) {
    const std::size_t size = std::min(ranks.size(), 2 + rng.below(3));
    std::vector<int32_t> group(ranks.end() - static_cast<std::ptrdiff_t>(size), ranks.end());
    ranks.resize(ranks.size() - size);
    std::ranges::sort(group);
    drawn.jobs.push_back({shared(drawn.levels.all_reduce(group)), 10'000,
                          static_cast<int64_t>(rng.below(static_cast<uint64_t>(latest_ps) + 1))});
  }
  return drawn;
}

// What routes on some lanes takes as long as if all were free, whenever it comes; what does not
// takes longer, where all of it comes at once.
TEST(JointLanes, LetFlowWhatRoutesOnSomeLanes) {
  int32_t routed = 0, refused = 0;
  for (int32_t seed = 0; seed < support::repeated(200); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const auto [levels, jobs] = draw(rng);
    const Topology topology = levels.topology();
    const std::optional<bool> routes = BruteForce(topology, jobs).routes();
    if (!routes.has_value()) {
      continue;
    }
    SimulationOptions options;
    options.segment_count = 1 + support::pick(rng, 3);
    const auto together = simulate("flow", topology, jobs, options);
    options.admission = AdmissionRule::kFree;
    const auto free = simulate("flow", topology, jobs, options);
    ASSERT_TRUE(together && free) << "seed " << seed;
    const bool is_free = together->job_finish_ps == free->job_finish_ps;
    if (*routes) {
      ++routed;
      EXPECT_TRUE(is_free) << "seed " << seed;
      EXPECT_EQ(together->use.admission->waited_ps, 0) << "seed " << seed;
    } else if (std::ranges::all_of(jobs, [](const Job& job) { return job.start_ps == 0; })) {
      ++refused;
      EXPECT_FALSE(is_free) << "seed " << seed;
    }
    EXPECT_EQ(together->use.admission->undecided, 0) << "seed " << seed;
  }
  EXPECT_GT(routed, 60);
  EXPECT_GT(refused, 8);
}

}  // namespace
}  // namespace pleach
