#include "pleach/collective/cut_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "pleach/collective/bounds.h"
#include "tests/support/random_flows.h"
#include "tests/support/random_tree.h"

namespace pleach {
namespace {

struct Case {
  Topology topology;
  std::vector<NodeId> participants;
  Rank root;
};

Case random_case(Rng& rng) {
  const int32_t switches = 1 + static_cast<int32_t>(rng.below(4));
  const int32_t ranks = 2 + static_cast<int32_t>(rng.below(6));
  Case made = {support::random_tree(switches, ranks, rng), {}, {}};
  for (const int32_t rank : support::shuffled_ports(ranks, rng)) {
    made.participants.push_back(NodeId{switches + rank});
  }
  made.participants.resize(2 + rng.below(made.participants.size() - 1));
  made.root = {static_cast<int32_t>(rng.below(made.participants.size()))};
  return made;
}

// The least bound of all sets of the nodes that traffic may use.
double least_of_all_sets(const Case& one, CollectiveKind collective) {
  const std::vector<NodeId>& ranks = one.participants;
  const auto nodes = static_cast<uint32_t>(one.topology.nodes().size());
  std::vector<bool> carries;
  for (const Node& node : one.topology.nodes()) {
    carries.push_back(passes_through(node));
  }
  for (const NodeId rank : ranks) {
    carries[rank.index()] = true;
  }
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t set = 0; set < (1U << nodes); ++set) {
    const auto is_in = [set](NodeId node) { return (set >> node.value & 1) != 0; };
    Edge edge;
    edge.rank_count = static_cast<double>(std::ranges::count_if(ranks, is_in));
    edge.has_root = is_in(ranks[one.root.index()]);
    if (edge.rank_count == 0 || edge.rank_count == static_cast<double>(ranks.size())) {
      continue;
    }
    for (const Link& link : one.topology.links()) {
      if (carries[link.source.index()] && carries[link.target.index()] &&
          is_in(link.source) != is_in(link.target)) {
        (is_in(link.source) ? edge.out : edge.in) +=
            static_cast<double>(link.bandwidth_bytes_per_s);
      }
    }
    least = std::min(least, bound_of(collective, edge, static_cast<double>(ranks.size())).algbw);
  }
  return least;
}

constexpr CollectiveKind kAll[] = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                                   CollectiveKind::kReduceScatter, CollectiveKind::kBroadcast,
                                   CollectiveKind::kReduce,        CollectiveKind::kGather,
                                   CollectiveKind::kScatter,       CollectiveKind::kAllToAll};

// No set of nodes has a lower bound than one edge of a tree.
TEST(CutBounds, AreLeastAtOneEdgeOfATree) {
  Rng rng(17);
  for (int32_t round = 0; round < 150; ++round) {
    const Case one = random_case(rng);
    for (const CollectiveKind collective : kAll) {
      SCOPED_TRACE(std::to_string(round) + " " + std::string(to_text(collective)));
      BoundRequest request;
      request.collective = collective;
      request.participants = one.participants;
      request.root = one.root;
      const Result<Bound> bound = algbw_bound(one.topology, request);
      ASSERT_TRUE(bound) << bound.error().message;
      const double least = least_of_all_sets(one, collective);
      // Volumes and partitions bound these too.
      if (collective == CollectiveKind::kAllToAll || collective == CollectiveKind::kAllReduce) {
        EXPECT_LE(bound->algbw_bytes_per_s, least * (1 + 1e-9));
      } else {
        EXPECT_NEAR(bound->algbw_bytes_per_s, least, least * 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace pleach
