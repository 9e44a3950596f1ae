#include "pleach/collective/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <tuple>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/shapes.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

constexpr double kLink = 16e9;  // bytes/s

Result<Bound> bound_of(const Topology& topology, CollectiveKind collective, int32_t root = 0) {
  BoundRequest request;
  request.collective = collective;
  request.root = Rank{root};
  return algbw_bound(topology, request);
}

// In units of one link.
struct Expected {
  std::string spec;
  double all_reduce;
  double all_gather;  // and reduce_scatter; gather and scatter, exactly, at a node like any other
  double broadcast;   // and reduce
  double all_to_all;
  std::string exact;  // of those four, in order
};

TEST(Bounds, EqualTheKnownOptima) {
  constexpr std::size_t kAlways = 4;
  const std::vector<Expected> cases = {
      {"ring:2", 1, 2, 1, 2, "yyyy"},
      {"ring:8", 8.0 / 7, 16.0 / 7, 2, 1, "yyyy"},
      {"mesh:4x4", 1.6, 32.0 / 15, 2, 1, "yyyn"},
      {"mesh:8x8", 112.0 / 63, 128.0 / 63, 2, 0.5, "yyyn"},
      {"torus:4x4", 32.0 / 15, 64.0 / 15, 4, 2, "yyyy"},
      {"torus:8x8", 128.0 / 63, 256.0 / 63, 4, 1, "yyyy"},
      {"torus:2x2", 4.0 / 3, 8.0 / 3, 2, 2, "yyyy"},
      {"torus:4x8", 64.0 / 31, 128.0 / 31, 4, 1, "yyyn"},
      {"torus:32x32", 2048.0 / 1023, 4096.0 / 1023, 4, 0.25, "yyyy"},
      {"mesh:3x3x3", 54.0 / 26, 81.0 / 26, 3, 1.5, "nyyn"},
      {"fully_connected:8", 4, 8, 7, 8, "yyyy"},
      {"switch:8", 4.0 / 7, 8.0 / 7, 1, 8.0 / 7, "yyyy"},
      {"switch:8,reduce,multicast", 1, 8.0 / 7, 1, 8.0 / 7, "yyyy"},
      {"switch:8,reduce", 1, 8.0 / 7, 1, 8.0 / 7, "nyyy"},
  };
  for (const Expected& expected : cases) {
    const Result<Topology> topology = parse_topology(expected.spec);
    ASSERT_TRUE(topology);
    const std::vector<std::tuple<CollectiveKind, double, std::size_t>> kinds = {
        {CollectiveKind::kAllReduce, expected.all_reduce, 0},
        {CollectiveKind::kAllGather, expected.all_gather, 1},
        {CollectiveKind::kReduceScatter, expected.all_gather, 1},
        {CollectiveKind::kBroadcast, expected.broadcast, 2},
        {CollectiveKind::kReduce, expected.broadcast, 2},
        {CollectiveKind::kAllToAll, expected.all_to_all, 3},
        {CollectiveKind::kGather, expected.all_gather, kAlways},
        {CollectiveKind::kScatter, expected.all_gather, kAlways},
    };
    for (const auto& [kind, algbw, place] : kinds) {
      const Result<Bound> bound = bound_of(*topology, kind);
      ASSERT_TRUE(bound) << bound.error().message;
      EXPECT_NEAR(bound->algbw_bytes_per_s / kLink, algbw, 1e-9 * algbw)
          << expected.spec << " " << to_text(kind) << ": " << bound->witness;
      EXPECT_EQ(bound->exact, place == kAlways || expected.exact[place] == 'y')
          << expected.spec << " " << to_text(kind);
      EXPECT_FALSE(bound->witness.empty());
    }
  }
}

TEST(Bounds, NameTheirWitness) {
  struct Case {
    std::string spec;
    CollectiveKind collective;
    std::string witness;
  };
  const std::vector<Case> cases = {
      {"torus:4x4,without_link=5>6", CollectiveKind::kBroadcast,
       "node 6 receives over 3 links (48.0 GB/s)"},
      {"torus:4x4,without_link=5>6", CollectiveKind::kReduce,
       "node 5 sends over 3 links (48.0 GB/s)"},
      {"mesh:4x4", CollectiveKind::kAllReduce,
       "16 ranks must move the buffer 30 times over the links between them (768 GB/s)"},
      {"mesh:2x4", CollectiveKind::kAllToAll, "cut {0, 1, 4, 5}: 32.0 GB/s out"},
      {"mesh:8x8", CollectiveKind::kAllToAll,
       "cut {0, 1, 2, 3, 4, 5, 6, 7, ... 32 ranks in all}: 128 GB/s out"},
      {"torus:4x4,without_link=5-6", CollectiveKind::kAllToAll,
       "messages travel 2.15 links on average, over 992 GB/s in all"},
  };
  for (const auto& [spec, collective, witness] : cases) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology);
    EXPECT_EQ(bound_of(*topology, collective)->witness, witness) << spec;
  }
}

// Two triangles of fast links with a slow cable between them: the cut is no single node.
constexpr const char* kTriangles = R"(
  node = [{name="a", forwards=true}, {name="b", forwards=true}, {name="c", forwards=true},
          {name="d", forwards=true}, {name="e", forwards=true}, {name="f", forwards=true}]
  cable = [{source="a", target="b"}, {source="b", target="c"}, {source="c", target="a"},
           {source="d", target="e"}, {source="e", target="f"}, {source="f", target="d"},
           {source="c", target="d", bandwidth="SLOW"}]
)";

Result<Topology> triangles(const std::string& slow) {
  std::string text = kTriangles;
  text.replace(text.find("SLOW"), 4, slow);
  return parse_topology_toml(text, "triangles.toml");
}

TEST(Bounds, FindCutsAroundGroups) {
  const Result<Topology> topology = triangles("4GB/s");
  ASSERT_TRUE(topology) << topology.error().message;
  const std::vector<std::tuple<CollectiveKind, double, std::string>> cases = {
      {CollectiveKind::kAllReduce, 4e9, "cut {a, b, c}: 4.00 GB/s out"},
      {CollectiveKind::kAllGather, 8e9, "cut {a, b, c}: 4.00 GB/s out"},
      {CollectiveKind::kReduceScatter, 8e9, "cut {a, b, c}: 4.00 GB/s out"},
      {CollectiveKind::kBroadcast, 4e9, "cut {a, b, c}: 4.00 GB/s out"},
      {CollectiveKind::kReduce, 4e9, "cut {a, b, c}: 4.00 GB/s in"},
      {CollectiveKind::kAllToAll, 4e9 * 6 / 9, "cut {a, b, c}: 4.00 GB/s out"},
      {CollectiveKind::kGather, 8e9, "cut {a, b, c}: 4.00 GB/s in"},
      {CollectiveKind::kScatter, 8e9, "cut {a, b, c}: 4.00 GB/s out"},
  };
  for (const auto& [kind, algbw, witness] : cases) {
    const Result<Bound> bound = bound_of(*topology, kind);
    ASSERT_TRUE(bound);
    EXPECT_DOUBLE_EQ(bound->algbw_bytes_per_s, algbw) << to_text(kind);
    EXPECT_EQ(bound->witness, witness) << to_text(kind);
  }
  // The same without a slower link: only a minimum cut can find it.
  const Result<Topology> even = triangles("16GB/s");
  ASSERT_TRUE(even);
  EXPECT_DOUBLE_EQ(bound_of(*even, CollectiveKind::kBroadcast)->algbw_bytes_per_s, kLink);
  EXPECT_DOUBLE_EQ(bound_of(*even, CollectiveKind::kAllGather)->algbw_bytes_per_s, 2 * kLink);
  EXPECT_TRUE(bound_of(*even, CollectiveKind::kAllGather)->exact);
}

// On a path the side of the root with more ranks decides, or the root itself: what is for k of n
// ranks beyond a link, or two, is k/n of the buffer.
TEST(Bounds, OfGatherAndScatterDependOnTheRoot) {
  const Result<Topology> path = parse_topology("mesh:8");
  ASSERT_TRUE(path);
  for (const CollectiveKind kind : {CollectiveKind::kGather, CollectiveKind::kScatter}) {
    for (int32_t root = 0; root < 8; ++root) {
      const Result<Bound> bound = bound_of(*path, kind, root);
      ASSERT_TRUE(bound);
      EXPECT_DOUBLE_EQ(bound->algbw_bytes_per_s / kLink, 8.0 / std::max(root, 7 - root));
      EXPECT_TRUE(bound->exact);
    }
  }
  EXPECT_EQ(bound_of(*path, CollectiveKind::kGather, 3)->witness, "cut {0, 1, 2, 3}: 16.0 GB/s in");
  EXPECT_EQ(bound_of(*path, CollectiveKind::kScatter, 4)->witness,
            "cut {0, 1, 2, 3}: 16.0 GB/s in");
}

// Two switches with three ranks each, two cables to each rank, one cable between the switches, or
// half of that over each of two ways.
Topology two_switches(bool has_circle) {
  TopologyBuilder builder("two");
  for (int32_t node = 0; node < (has_circle ? 9 : 8); ++node) {
    Node properties;
    properties.kind = node < 6 ? NodeKind::kRank : NodeKind::kSwitch;
    EXPECT_TRUE(builder.add_node(properties));
  }
  const auto bandwidth = static_cast<int64_t>(kLink);
  for (int32_t rank = 0; rank < 6; ++rank) {
    EXPECT_TRUE(builder.add_cable({NodeId{rank}, NodeId{6 + rank % 2}, bandwidth, 0}));
    EXPECT_TRUE(builder.add_cable({NodeId{rank}, NodeId{6 + rank % 2}, bandwidth, 0}));
  }
  EXPECT_TRUE(builder.add_cable({NodeId{6}, NodeId{7}, has_circle ? bandwidth / 2 : bandwidth, 0}));
  for (int32_t end = 6; has_circle && end < 8; ++end) {
    EXPECT_TRUE(builder.add_cable({NodeId{end}, NodeId{8}, bandwidth / 2, 0}));
  }
  return std::move(builder).build().value();
}

TEST(Bounds, PassThroughRelays) {
  for (const bool has_circle : {false, true}) {
    const Topology two = two_switches(has_circle);
    BoundRequest request;
    request.collective = CollectiveKind::kAllGather;
    const Result<Bound> bound = algbw_bound(two, request);
    EXPECT_DOUBLE_EQ(bound->algbw_bytes_per_s, 2 * kLink);
    EXPECT_EQ(bound->witness, "cut {0, 2, 4}: 16.0 GB/s out");
    EXPECT_TRUE(bound->exact);
    request.max_flow_limit = 0;  // not all is covered, and said to be; a tree needs no flows
    const Result<Bound> loose = algbw_bound(two, request);
    EXPECT_DOUBLE_EQ(loose->algbw_bytes_per_s, 2 * kLink);
    EXPECT_EQ(loose->exact, !has_circle);
    EXPECT_DOUBLE_EQ(bound_of(two, CollectiveKind::kReduceScatter)->algbw_bytes_per_s, 2 * kLink);
    EXPECT_DOUBLE_EQ(bound_of(two, CollectiveKind::kBroadcast)->algbw_bytes_per_s, kLink);
    EXPECT_DOUBLE_EQ(bound_of(two, CollectiveKind::kAllReduce)->algbw_bytes_per_s, kLink);
  }
}

// One stream inside passes every cut once; a leaf's other way up, or a switch that cannot, may
// spoil it.
TEST(Bounds, AreExactOnTreesOfSwitchesThatCan) {
  struct Case {
    std::string spec;
    bool all_reduce, broadcast, reduce;
  };
  const std::vector<Case> cases = {
      {"fred:B", true, true, true},
      {"fred:D", true, true, true},
      {"fred:D,levels=3,npus=40,taper=3", true, true, true},
      {"fred:A", false, false, false},
      {"fred:D,view=plane", false, false, false},
      {"switch_tree:3x2x2,multicast", false, true, false},
      {"switch_tree:3x2x2,reduce", false, false, true},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.spec);
    const Result<Topology> topology = parse_topology(one.spec);
    ASSERT_TRUE(topology);
    for (const auto& [collective, exact] : {std::pair(CollectiveKind::kAllReduce, one.all_reduce),
                                            std::pair(CollectiveKind::kBroadcast, one.broadcast),
                                            std::pair(CollectiveKind::kReduce, one.reduce)}) {
      BoundRequest request;
      request.collective = collective;
      request.participants = topology->rank_nodes();
      const Result<Bound> bound = algbw_bound(*topology, request);
      ASSERT_TRUE(bound);
      EXPECT_EQ(bound->exact, exact) << to_text(collective);
    }
    // Any group too.
    BoundRequest some;
    some.collective = CollectiveKind::kAllReduce;
    const std::vector<NodeId> group = {NodeId{9}, NodeId{1}, NodeId{2}};
    some.participants = group;
    EXPECT_EQ(algbw_bound(*topology, some)->exact, one.all_reduce);
  }
}

TEST(Bounds, TakeSomeOfTheNodes) {
  const Result<Topology> torus = parse_topology("torus:4x4");
  ASSERT_TRUE(torus);
  const std::vector<NodeId> row = {NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}};
  BoundRequest request;
  request.participants = row;
  const Result<Bound> bound = algbw_bound(*torus, request);
  ASSERT_TRUE(bound);
  // Four links into each of four ranks, six messages.
  EXPECT_DOUBLE_EQ(bound->algbw_bytes_per_s, 16 * kLink / 6);
  EXPECT_FALSE(bound->exact);
}

TEST(Bounds, RefuseBadRequests) {
  const Result<Topology> torus = parse_topology("torus:2x2");
  const Result<Topology> oneway = parse_topology_toml(
      "node = [{name='a'}, {name='b'}, {name='s', kind='switch'}]\n"
      "cable = [{source='a', target='b'}]\nlink = [{source='a', target='s'}]\n",
      "x.toml");
  ASSERT_TRUE(torus && oneway);
  struct Case {
    const Topology& topology;
    std::vector<NodeId> participants;
    int32_t root;
    ErrorCode code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {*torus,
       {NodeId{0}},
       0,
       ErrorCode::kInvalidArgument,
       "1 participant of topology 'torus:2x2': a bound needs at least two"},
      {*torus,
       {NodeId{0}, NodeId{4}},
       0,
       ErrorCode::kInvalidArgument,
       "participant 4 is no node of topology 'torus:2x2'"},
      {*torus,
       {NodeId{0}, NodeId{}},
       0,
       ErrorCode::kInvalidArgument,
       "participant -1 is no node of topology 'torus:2x2'"},
      {*torus, {NodeId{1}, NodeId{1}}, 0, ErrorCode::kInvalidArgument, "node 1 takes part twice"},
      {*torus, {}, 4, ErrorCode::kInvalidArgument, "root 4 is outside 0 to 3"},
      {*torus, {}, -1, ErrorCode::kInvalidArgument, "root -1 is outside 0 to 3"},
      {*oneway,
       {NodeId{0}, NodeId{2}},
       0,
       ErrorCode::kInfeasible,
       "participants 's' and 'a' are not connected"},
  };
  for (const auto& [topology, participants, root, code, message] : cases) {
    BoundRequest request;
    request.participants = participants;
    request.root = Rank{root};
    const Result<Bound> bound = algbw_bound(topology, request);
    ASSERT_FALSE(bound) << message;
    EXPECT_EQ(bound.error().code, code);
    EXPECT_EQ(bound.error().message, message);
  }
}

// The least bound over all sets of ranks, by enumeration.
double least_of_all_cuts(const Topology& topology, CollectiveKind kind, int32_t root) {
  const auto count = count_of(topology.nodes());
  double least = 1e300;
  for (uint32_t set = 1; set + 1 < (1U << count); ++set) {
    double out = 0;
    for (const Link& link : topology.links()) {
      const bool leaves =
          (set >> link.source.value & 1) != 0 && (set >> link.target.value & 1) == 0;
      out += leaves ? static_cast<double>(link.bandwidth_bytes_per_s) : 0;
    }
    const auto inside = static_cast<double>(std::popcount(set));
    switch (kind) {
      case CollectiveKind::kAllGather:
        least = std::min(least, out * count / inside);
        break;
      case CollectiveKind::kReduceScatter:
        least = std::min(least, out * count / (count - inside));
        break;
      default:
        if ((set >> root & 1) == (kind == CollectiveKind::kBroadcast ? 1U : 0U)) {
          least = std::min(least, out);
        }
    }
  }
  return least;
}

// Any links between 3 to 8 nodes that forward; all are connected by a cycle.
Topology random_topology(Rng& rng, const std::function<int64_t()>& bandwidth) {
  const auto count = static_cast<int32_t>(3 + rng.below(6));
  TopologyBuilder builder("random");
  for (int32_t node = 0; node < count; ++node) {
    Node properties;
    properties.forwards = true;
    EXPECT_TRUE(builder.add_node(properties));
  }
  for (int32_t node = 0; node < count; ++node) {
    EXPECT_TRUE(builder.add_link({NodeId{node}, NodeId{(node + 1) % count}, bandwidth(), 0}));
  }
  for (uint64_t more = rng.below(20); more > 0; --more) {
    const auto source = static_cast<int32_t>(rng.below(static_cast<uint64_t>(count)));
    const auto target = static_cast<int32_t>(rng.below(static_cast<uint64_t>(count)));
    if (source != target) {
      EXPECT_TRUE(builder.add_link({NodeId{source}, NodeId{target}, bandwidth(), 0}));
    }
  }
  Result<Topology> topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return std::move(topology).value();
}

// Bandwidths of any ratio. What is claimed to be exact is so; no bound is below all cuts.
TEST(Bounds, AreTheLeastOfAllCuts) {
  constexpr uint64_t kSeed = 19;
  Rng rng(kSeed);
  int32_t exact = 0, bounds = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const bool is_wild = trial % 2 == 1;
    const auto bandwidth = [&] {
      auto value = static_cast<int64_t>(1 + rng.below(9)) * 1'000'003;
      for (uint64_t more = is_wild ? rng.below(12) : 0; more > 0; --more) {
        value = more % 2 == 0 ? value * 9 + 1 : value * 11 + 5;
      }
      return value;
    };
    const Topology topology = random_topology(rng, bandwidth);
    const auto root = static_cast<int32_t>(rng.below(topology.nodes().size()));
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                      CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
      const double least = least_of_all_cuts(topology, kind, root);
      const Result<Bound> bound = bound_of(topology, kind, root);
      ASSERT_TRUE(bound);
      EXPECT_TRUE(bound->exact || is_wild);
      EXPECT_GE(bound->algbw_bytes_per_s, least * (1 - 1e-11));
      EXPECT_TRUE(!bound->exact || bound->algbw_bytes_per_s <= least * (1 + 1e-11))
          << bound->algbw_bytes_per_s << " " << least << " " << to_text(kind) << ", seed " << kSeed
          << ", trial " << trial;
      exact += bound->exact ? 1 : 0;
      ++bounds;
    }
  }
  EXPECT_GT(exact, bounds * 3 / 4);
}

// Two sets of nearly one capacity, beside a link that is 2^57 times as fast: rounded to the units
// that fit beside it, both have the same one.
TEST(Bounds, ClaimNothingThatRoundingDecides) {
  TopologyBuilder builder("wide");
  for (int32_t node = 0; node < 4; ++node) {
    Node properties;
    properties.forwards = true;
    ASSERT_TRUE(builder.add_node(properties));
  }
  const std::tuple<int32_t, int32_t, int64_t> cables[] = {
      {0, 1, int64_t{1} << 62}, {1, 2, 31}, {2, 3, int64_t{1} << 62}, {3, 0, 1}};
  for (const auto& [one, other, bandwidth] : cables) {
    ASSERT_TRUE(builder.add_cable({NodeId{one}, NodeId{other}, bandwidth, 0}));
  }
  const Result<Topology> topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  for (const CollectiveKind kind : {CollectiveKind::kBroadcast, CollectiveKind::kAllGather}) {
    const Result<Bound> bound = bound_of(*topology, kind);
    ASSERT_TRUE(bound);
    EXPECT_FALSE(bound->exact) << to_text(kind);
    EXPECT_GE(bound->algbw_bytes_per_s, 32) << to_text(kind);
  }
}

// Reduces chunk by chunk around the ring 0 → 1 → ... and gathers the same way.
Schedule ring_all_reduce(int32_t rank_count) {
  Schedule schedule;
  schedule.chunks = ChunkGrid::uniform(rank_count);
  schedule.phase_steps = {rank_count - 1, rank_count - 1};
  schedule.period = 2 * rank_count - 2;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    schedule.participants.push_back(NodeId{rank});
  }
  for (int32_t step = 0; step < 2 * rank_count - 2; ++step) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      Transfer transfer;
      transfer.first_chunk = (rank - step + 2 * rank_count) % rank_count;
      transfer.source = NodeId{rank};
      transfer.target = NodeId{(rank + 1) % rank_count};
      transfer.step = step;
      transfer.op = step < rank_count - 1 ? TransferOp::kReduce : TransferOp::kCopy;
      schedule.transfers.push_back(transfer);
    }
  }
  sort_transfers(schedule);
  return schedule;
}

TEST(Certify, CountsTheLoadsOfARing) {
  const Result<Topology> topology = parse_topology("ring:8,latency=100ns,overhead=10ns");
  ASSERT_TRUE(topology);
  Schedule schedule = ring_all_reduce(8);
  ASSERT_TRUE(certify(schedule, *topology));  // finds the routes itself
  const Certificate without_routes = schedule.provenance.certificate;
  EXPECT_EQ(schedule.transfers[0].route, kNoRoute);
  ASSERT_TRUE(fill_routes(schedule, *topology));
  ASSERT_TRUE(certify(schedule, *topology));
  const Certificate& certificate = schedule.provenance.certificate;
  EXPECT_EQ(certificate, without_routes);
  // One way of the ring: 14 transfers of an eighth on each link.
  EXPECT_NEAR(certificate.algbw_bytes_per_s, kLink * 8 / 14, 1);
  EXPECT_NEAR(certificate.bound_algbw_bytes_per_s, kLink * 8 / 7, 1);
  EXPECT_NEAR(certificate.fraction, 0.5, 1e-12);
  EXPECT_TRUE(certificate.exact);
  EXPECT_NEAR(certificate.alpha_s, 14 * 110e-9, 1e-15);
  EXPECT_NEAR(certificate.beta_s_per_byte, 14.0 / 8 / kLink, 1e-20);
}

TEST(Certify, CountsEveryLinkOfARoute) {
  // On a mesh of one row the step from the last rank to the first goes over all links.
  const Result<Topology> topology = parse_topology("mesh:4,latency=100ns");
  ASSERT_TRUE(topology);
  Schedule schedule = ring_all_reduce(4);
  ASSERT_TRUE(certify(schedule, *topology));
  const Certificate& certificate = schedule.provenance.certificate;
  EXPECT_NEAR(certificate.alpha_s, 6 * 300e-9, 1e-15);
  EXPECT_NEAR(certificate.algbw_bytes_per_s, kLink * 4 / 6, 1);
}

TEST(Certify, FollowsStreamsThroughSwitches) {
  const Result<Topology> topology =
      parse_topology("switch:3,reduce,multicast,latency=100ns,overhead=5ns");
  ASSERT_TRUE(topology);
  Schedule schedule;
  schedule.participants = {NodeId{0}, NodeId{1}, NodeId{2}};
  schedule.phase_steps = {1};
  for (int32_t rank = 0; rank < 3; ++rank) {
    schedule.transfers.push_back({0, 1, NodeId{rank}, NodeId{3}, 0, kNoRoute, TransferOp::kReduce});
    schedule.transfers.push_back({0, 1, NodeId{3}, NodeId{rank}, 0, kNoRoute, TransferOp::kReduce});
  }
  sort_transfers(schedule);
  ASSERT_TRUE(certify(schedule, *topology));
  const Certificate& certificate = schedule.provenance.certificate;
  EXPECT_NEAR(certificate.algbw_bytes_per_s, kLink, 1);
  EXPECT_NEAR(certificate.fraction, 1, 1e-12);
  EXPECT_NEAR(certificate.alpha_s, 205e-9, 1e-15);
}

// Two switches of two ranks each below one: four links up and down, and the overhead once.
TEST(Certify, FollowsStreamsThatPassASwitchTwice) {
  const support::TwoLevels levels;
  const Topology topology = levels.topology();
  Schedule schedule = levels.all_reduce();
  EXPECT_EQ(check_form(schedule, &topology), std::vector<std::string>());
  ASSERT_TRUE(certify(schedule, topology));
  const Certificate& certificate = schedule.provenance.certificate;
  EXPECT_NEAR(certificate.algbw_bytes_per_s, 1e9, 1);
  EXPECT_NEAR(certificate.alpha_s, 405e-9, 1e-15);
}

TEST(Certify, CountsTheBuffersOfAllRanksInAnAllToAll) {
  const Result<Topology> topology = parse_topology("fully_connected:4");
  ASSERT_TRUE(topology);
  Schedule schedule;
  schedule.collective = CollectiveKind::kAllToAll;
  schedule.participants = {NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}};
  schedule.chunks = ChunkGrid::uniform(16);
  schedule.phase_steps = {1};
  for (int32_t source = 0; source < 4; ++source) {
    for (int32_t target = 0; target < 4; ++target) {
      if (source != target) {
        schedule.transfers.push_back({source * 4 + target, 1, NodeId{source}, NodeId{target}, 0});
      }
    }
  }
  sort_transfers(schedule);
  ASSERT_TRUE(certify(schedule, *topology));
  EXPECT_NEAR(schedule.provenance.certificate.algbw_bytes_per_s, 4 * kLink, 1);
  EXPECT_NEAR(schedule.provenance.certificate.fraction, 1, 1e-12);
}

TEST(Certify, CountsTranslatesOfSymmetricSchedules) {
  const Result<Topology> topology = parse_topology("ring:8,latency=100ns,overhead=10ns");
  ASSERT_TRUE(topology);
  Schedule whole = ring_all_reduce(8);
  ASSERT_TRUE(fill_routes(whole, *topology));
  Schedule symmetric = whole;
  symmetric.symmetry = Symmetry{{8}};
  std::erase_if(symmetric.transfers,
                [](const Transfer& transfer) { return transfer.first_chunk != 0; });
  ASSERT_TRUE(certify(whole, *topology));
  ASSERT_TRUE(certify(symmetric, *topology));
  const Certificate& expected = whole.provenance.certificate;
  const Certificate& certificate = symmetric.provenance.certificate;
  EXPECT_NEAR(certificate.algbw_bytes_per_s, expected.algbw_bytes_per_s, 1);
  EXPECT_NEAR(certificate.alpha_s, expected.alpha_s, 1e-15);
  EXPECT_NEAR(certificate.beta_s_per_byte, expected.beta_s_per_byte, 1e-20);
}

TEST(Certify, RefusesWhatDoesNotFit) {
  const Result<Topology> topology = parse_topology("ring:4");
  ASSERT_TRUE(topology);
  Schedule stranger = ring_all_reduce(8);
  EXPECT_EQ(certify(stranger, *topology).error().message,
            "participant 4 is no node of topology 'ring:4'");
  Schedule broken = ring_all_reduce(4);
  ASSERT_TRUE(fill_routes(broken, *topology));
  broken.transfers[0].route = 99;
  EXPECT_EQ(certify(broken, *topology).error().message,
            "transfer 0->1 of step 0 does not fit topology ring:4");
  EXPECT_EQ(broken.provenance.certificate, Certificate{});
}

}  // namespace
}  // namespace pleach
