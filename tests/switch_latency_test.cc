// What switches add to the latencies of routes and streams, in every model and certificate.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/routes.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

Schedule schedule_of(const Topology& topology, const std::string& algorithm,
                     CollectiveKind collective) {
  auto schedule =
      synthesize({.topology = topology, .participants = {}, .collective = collective}, algorithm);
  EXPECT_TRUE(schedule) << algorithm << (schedule ? "" : schedule.error().message);
  return std::move(*schedule);
}

int64_t time_ps(const std::string& model, const Topology& topology, const Schedule& schedule,
                int64_t size_bytes, const SimulationOptions& options = {}) {
  const Job job{borrowed(schedule), size_bytes, 0};
  const auto result = simulate(model, topology, {&job, 1}, options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? result->finish_ps : -1;
}

// A tree of switches with ranks as leaves; latencies of links, switches and messages are drawn.
class RandomTree {
 public:
  explicit RandomTree(Rng& rng) : topology_(build(rng)) {}

  const Topology& topology() const { return topology_; }
  // Summed node by node along the only way there is.
  int64_t way_ps(NodeId source, NodeId target) const { return way_ps(source, target, NodeId{}); }

 private:
  static Topology build(Rng& rng) {
    const auto time = [&] { return static_cast<int64_t>(rng.below(1'000)) * 1'000; };
    TopologyBuilder builder("tree");
    std::vector<NodeId> switches;
    const auto join = [&](NodeId one, NodeId other) {
      EXPECT_TRUE(builder.add_link({one, other, 1'000'000'000, time()}));
      EXPECT_TRUE(builder.add_link({other, one, 1'000'000'000, time()}));
    };
    for (int32_t number = 0; number < 5; ++number) {
      const auto added = builder.add_node(
          {.name = "", .kind = NodeKind::kSwitch, .latency_ps = rng.below(3) == 0 ? 0 : time()});
      EXPECT_TRUE(added);
      if (number > 0) {
        join(*added, switches[rng.below(switches.size())]);
      }
      switches.push_back(*added);
    }
    for (int32_t rank = 0; rank < 6; ++rank) {
      const auto added = builder.add_node({.name = "", .overhead_ps = time()});
      EXPECT_TRUE(added);
      join(*added, switches[rng.below(switches.size())]);
    }
    return std::move(std::move(builder).build()).value();
  }

  int64_t way_ps(NodeId here, NodeId target, NodeId came_from) const {
    for (const LinkId id : topology_.links_out(here)) {
      const auto& [source, next, bandwidth, latency_ps, lanes] = topology_.link(id);
      if (next == target) {
        return latency_ps;
      }
      if (next == came_from || topology_.node(next).kind == NodeKind::kRank) {
        continue;
      }
      if (const int64_t rest_ps = way_ps(next, target, here); rest_ps >= 0) {
        return latency_ps + topology_.node(next).latency_ps + rest_ps;
      }
    }
    return -1;
  }

  Topology topology_;
};

// A message without bytes takes its rank's overhead, and then every link and switch on its way.
TEST(SwitchLatency, IsPaidOnceForEverySwitchOnTheWay) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const RandomTree tree(rng);
    const Topology& topology = tree.topology();
    const auto ranks = topology.rank_nodes();
    int64_t slowest_ps = 0;
    for (const NodeId source : ranks) {
      for (const NodeId target : ranks) {
        if (source != target) {
          slowest_ps =
              std::max(slowest_ps, topology.node(source).overhead_ps + tree.way_ps(source, target));
        }
      }
    }
    const Schedule schedule = schedule_of(topology, "direct", CollectiveKind::kAllToAll);
    for (const char* model : {"flow", "analytic"}) {
      EXPECT_EQ(time_ps(model, topology, schedule, 0), slowest_ps) << model;
    }
    EXPECT_NEAR(schedule.provenance.certificate.alpha_s * 1e12, static_cast<double>(slowest_ps),
                0.5);
  }
}

// A tree that reduces and copies: a stream takes its longest way, through the switch too.
TEST(SwitchLatency, IsPartOfAStreamsLongestWay) {
  const Topology topology =
      topology_of("switch:8,reduce,multicast,latency=100ns,switch_latency=30ns,overhead=5ns");
  for (const CollectiveKind collective :
       {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
    const Schedule schedule = schedule_of(topology, "in_switch", collective);
    EXPECT_EQ(time_ps("flow", topology, schedule, 0), 235'000) << to_text(collective);
    EXPECT_EQ(time_ps("analytic", topology, schedule, 0), 235'000) << to_text(collective);
    EXPECT_NEAR(schedule.provenance.certificate.alpha_s, 235e-9, 1e-15) << to_text(collective);
  }
}

// It is pipelined: it adds to when bytes arrive, not to how fast they do.
TEST(SwitchLatency, IsPipelined) {
  const std::string shape = "fat_tree:8,radix=2,levels=2,bandwidth=1GB/s,latency=0,overhead=0";
  const Topology plain = topology_of(shape);
  const Topology slow = topology_of(shape + ",switch_latency=20ns");
  const Schedule schedule = schedule_of(plain, "ring", CollectiveKind::kAllGather);
  const int64_t difference_ps =
      time_ps("flow", slow, schedule, 1 << 20) - time_ps("flow", plain, schedule, 1 << 20);
  EXPECT_GE(difference_ps, 7 * 20'000);      // a step to a neighbour passes one switch
  EXPECT_LE(difference_ps, 7 * 3 * 20'000);  // others three
}

// In cycles, rounded up, in the router that a flit leaves; a switch on the way is passed once.
TEST(SwitchLatency, IsTheRoutersPipelineInFlit) {
  const std::string shape =
      "fat_tree:8,radix=2,levels=2,bandwidth=16GB/s,overhead=0,header=16,"
      "packet=256";
  const Schedule schedule = schedule_of(topology_of(shape), "ring", CollectiveKind::kAllGather);
  const auto time = [&](const std::string& latency) {
    return time_ps("flit", topology_of(shape + ",switch_latency=" + latency), schedule, 8'192);
  };
  const int64_t plain_ps = time("0");
  const int64_t difference_ps = time("20ns") - plain_ps;
  EXPECT_EQ(time("19.5ns"), time("20ns"));
  EXPECT_GE(difference_ps, 7 * 20'000);
  EXPECT_LE(difference_ps, 7 * 3 * 20'000);
  const Topology two = topology_of("switch:2,bandwidth=16GB/s,latency=10ns");
  const Topology slow = topology_of("switch:2,bandwidth=16GB/s,latency=10ns,switch_latency=50ns");
  const Schedule once = schedule_of(two, "direct", CollectiveKind::kAllToAll);
  EXPECT_EQ(time_ps("flit", slow, once, 4'096) - time_ps("flit", two, once, 4'096), 50'000);
}

// Of parallel ways, those to switches of one latency are alike.
TEST(SwitchLatency, TellsStripesWhichWaysAreAlike) {
  const auto ways = [](const std::string& latency) {
    const Result<Topology> topology = parse_topology_toml(
        R"(node = [{ name = "a" }, { name = "b" }, { name = "s", kind = "switch" },
                   { name = "t", kind = "switch", latency = ")" +
            latency + R"(" }]
           cable = [{ source = "a", target = "s" }, { source = "a", target = "t" },
                    { source = "s", target = "b" }, { source = "t", target = "b" }])",
        "x.toml");
    EXPECT_TRUE(topology) << topology.error().message;
    return Router(*topology).ways_out(NodeId{0}, NodeId{1});
  };
  EXPECT_EQ(ways("0"), 2);
  EXPECT_EQ(ways("1ns"), 1);
}

}  // namespace
}  // namespace pleach
