#include "pleach/collective/symmetry.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"

namespace pleach {
namespace {

Schedule make(CollectiveKind kind, const std::vector<int32_t>& dimensions, int32_t chunk_count) {
  Schedule schedule;
  schedule.collective = kind;
  schedule.symmetry = Symmetry{dimensions};
  const int32_t order = Translation(dimensions).order();
  for (int32_t rank = 0; rank < order; ++rank) {
    schedule.participants.push_back(NodeId{rank});
  }
  schedule.chunks = ChunkGrid::uniform(chunk_count);
  return schedule;
}

// A torus whose links go out per dimension minus, plus; `change` may spoil link i or node i.
Topology make_torus(const std::vector<int32_t>& dimensions,
                    const std::function<void(int32_t, Link&)>& change_link = {},
                    const std::function<void(int32_t, Node&)>& change_node = {}) {
  TopologyBuilder builder("torus");
  const Translation translation(dimensions);
  for (int32_t rank = 0; rank < translation.order(); ++rank) {
    Node node{.name = "n" + std::to_string(rank), .forwards = true};
    if (change_node) {
      change_node(rank, node);
    }
    EXPECT_TRUE(builder.add_node(node));
  }
  int32_t index = 0;
  for (int32_t rank = 0; rank < translation.order(); ++rank) {
    int32_t stride = translation.order();
    for (const int32_t size : dimensions) {
      stride /= size;
      const int32_t plus = translation.add(rank, stride);
      for (const int32_t target : {translation.subtract(rank, stride), plus}) {
        Link link{NodeId{rank}, NodeId{target}, 1000, 5};
        if (change_link) {
          change_link(index, link);
        }
        EXPECT_TRUE(builder.add_link(link));
        ++index;
      }
    }
  }
  auto topology = std::move(builder).build();
  EXPECT_TRUE(topology);
  return *topology;
}

TEST(Translation, IsAGroupThatActsFreely) {
  for (const std::vector<int32_t>& dimensions :
       std::vector<std::vector<int32_t>>{{}, {1}, {5}, {2, 3}, {4, 1, 3}, {2, 2, 2}}) {
    const Translation translation(dimensions);
    for (int32_t a = 0; a < translation.order(); ++a) {
      EXPECT_EQ(translation.add(0, a), a);
      std::set<int32_t> images;
      for (int32_t b = 0; b < translation.order(); ++b) {
        images.insert(translation.add(a, b));
        EXPECT_EQ(translation.add(a, b), translation.add(b, a));
        EXPECT_EQ(translation.subtract(translation.add(a, b), b), a);
      }
      EXPECT_EQ(std::ssize(images), translation.order());
    }
  }
  const std::vector<int32_t> grid = {4, 5};
  EXPECT_EQ(Translation(grid).add(19, 6), 0 * 5 + 0) << "(3, 4) + (1, 1) wraps in both";
}

TEST(Translation, MovesChunksWithTheirRanks) {
  struct Case {
    CollectiveKind kind;
    int32_t chunk_count;
    int32_t representatives;
  };
  for (const Case& test :
       {Case{CollectiveKind::kAllGather, 12, 2}, Case{CollectiveKind::kAllReduce, 6, 1},
        Case{CollectiveKind::kAllToAll, 72, 12}}) {
    const Schedule schedule = make(test.kind, {2, 3}, test.chunk_count);
    const Translation translation(schedule.symmetry->dimensions);
    EXPECT_EQ(representative_chunk_count(schedule), test.representatives);
    std::set<int32_t> reached;
    for (int32_t g = 0; g < 6; ++g) {
      for (int32_t chunk = 0; chunk < test.chunk_count; ++chunk) {
        const int32_t moved = translate_chunk(schedule, translation, chunk, g);
        if (chunk < test.representatives) {
          reached.insert(moved);
        }
        for (int32_t rank = 0; rank < 6; ++rank) {
          const Rank to{translation.add(rank, g)};
          EXPECT_EQ(has_input(schedule, Rank{rank}, chunk), has_input(schedule, to, moved));
          EXPECT_EQ(has_output(schedule, Rank{rank}, chunk), has_output(schedule, to, moved));
        }
      }
    }
    EXPECT_EQ(std::ssize(reached), test.chunk_count) << to_text(test.kind);
  }
}

TEST(LinkTranslation, MovesLinksOfTori) {
  for (const std::vector<int32_t>& dimensions :
       std::vector<std::vector<int32_t>>{{2}, {5}, {2, 3}, {2, 2}, {3, 4, 2}}) {
    const Topology topology = make_torus(dimensions);
    const Translation translation(dimensions);
    const Schedule schedule = make(CollectiveKind::kAllReduce, dimensions, translation.order());
    const auto links = LinkTranslation::create(schedule, topology, true);
    ASSERT_TRUE(links) << links.error().message;
    EXPECT_EQ(links->class_count(), 2 * std::ssize(dimensions));
    for (int32_t g = 0; g < translation.order(); ++g) {
      std::set<LinkId> images;
      for (int32_t i = 0; i < count_of(topology.links()); ++i) {
        const LinkId moved = links->translate(LinkId{i}, g);
        images.insert(moved);
        EXPECT_EQ(links->class_of(moved), links->class_of(LinkId{i}));
        const Link& from = topology.link(LinkId{i});
        const Link& to = topology.link(moved);
        EXPECT_EQ(to.source.value, translation.add(from.source.value, g));
        EXPECT_EQ(to.target.value, translation.add(from.target.value, g));
        EXPECT_EQ(links->link_of(links->class_of(moved), to.source.value), moved);
      }
      EXPECT_EQ(images.size(), topology.links().size());
    }
  }
}

TEST(LinkTranslation, RefusesWhatIsNotSymmetric) {
  struct Case {
    std::string name;
    Topology topology;
    bool holds = false;
    bool holds_with_latency = false;
    std::string error = "";
  };
  const std::vector<int32_t> ring = {4};
  const auto on_link_3 = [](auto change) {
    return [change](int32_t index, Link& link) {
      if (index == 3) {
        change(link);
      }
    };
  };
  const std::vector<Case> cases = {
      {"ring", make_torus(ring), true, true},
      {"bandwidth", make_torus(ring, on_link_3([](Link& l) { l.bandwidth_bytes_per_s = 7; })),
       false, false, "link 3 (n1 -> n2) has no counterpart out of rank 0"},
      {"latency", make_torus(ring, on_link_3([](Link& l) { l.latency_ps = 7; })), true, false},
      {"target", make_torus(ring, on_link_3([](Link& l) { l.target = NodeId{3}; })), false, false,
       "has no counterpart"},
      {"overhead", make_torus(ring, {}, [](int32_t i, Node& n) { n.overhead_ps = i; }), true,
       false},
      {"forwards", make_torus(ring, {}, [](int32_t i, Node& n) { n.forwards = i != 2; }), false,
       false, "node n2 differs from node n0"},
      {"size", make_torus({5}), false, false, "5 nodes, the schedule 4 participants"},
  };
  const Schedule schedule = make(CollectiveKind::kAllReduce, ring, 4);
  for (const Case& test : cases) {
    const auto proof = LinkTranslation::create(schedule, test.topology, false);
    EXPECT_EQ(proof.has_value(), test.holds) << test.name;
    const auto fold = LinkTranslation::create(schedule, test.topology, true);
    EXPECT_EQ(fold.has_value(), test.holds_with_latency) << test.name;
    if (!proof) {
      EXPECT_NE(proof.error().message.find(test.error), std::string::npos) << proof.error().message;
    }
  }
}

}  // namespace
}  // namespace pleach
