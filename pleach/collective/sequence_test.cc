#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;

std::vector<int64_t> weights(const ChunkGrid& grid) {
  std::vector<int64_t> result;
  for (int32_t chunk = 0; chunk < grid.count(); ++chunk) {
    result.push_back(grid.weight(chunk));
  }
  return result;
}

TEST(Sequence, RefinesGrids) {
  struct Case {
    std::vector<int64_t> first, second, refined;
    bool is_uniform;
  };
  const std::vector<Case> cases = {
      {{1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, true},
      {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, true},
      {{1, 1, 1}, {1, 1}, {2, 1, 1, 2}, false},
      {{1, 3}, {3, 1}, {1, 2, 1}, false},
      {{5}, {1, 6}, {1, 6}, false},
      {{2, 4}, {1, 2}, {2, 4}, false},
  };
  for (const Case& test : cases) {
    Schedule first = make_schedule({.rank_count = 2}, {});
    Schedule second = first;
    first.chunks = ChunkGrid::weighted(test.first);
    second.chunks = ChunkGrid::weighted(test.second);
    const auto both = sequence(first, second, CollectiveKind::kAllReduce);
    ASSERT_TRUE(both);
    EXPECT_EQ(both->chunks.is_uniform(), test.is_uniform);
    const std::vector<int64_t> found = weights(both->chunks);
    // Only the proportions matter.
    ASSERT_EQ(found.size(), test.refined.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i] * test.refined[0], test.refined[i] * found[0]);
    }
  }
}

TEST(Sequence, PutsStepsChunksAndRoutesTogether) {
  Schedule first = make_schedule({.collective = CollectiveKind::kReduce, .rank_count = 2},
                                 {{0, 1, 1, 0, kReduce, 0}});
  first.transfers[0].route = first.routes.add(std::vector<LinkId>{LinkId{5}});
  first.provenance = {"tree", "a", 9, {}};
  first.provenance.certificate.fraction = 0.5;
  Schedule second =
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 2, .chunk_count = 2},
                    {{0, 1, 0, 1, kCopy, 0}, {1, 1, 0, 1, kCopy, 1}});
  second.transfers[1].route = second.routes.add(std::vector<LinkId>{LinkId{5}});
  second.provenance = {"tree", "b", 9, {}};
  const auto both = sequence(first, second, CollectiveKind::kAllReduce);
  ASSERT_TRUE(both);
  Schedule expected =
      make_schedule({.rank_count = 2, .chunk_count = 2},
                    {{0, 2, 1, 0, kReduce, 0}, {0, 1, 0, 1, kCopy, 1}, {1, 1, 0, 1, kCopy, 2}});
  expected.phase_steps = {1, 2};
  expected.period = 3;
  expected.routes.add(std::vector<LinkId>{LinkId{5}});
  expected.transfers[0].route = expected.transfers[2].route = 0;
  expected.provenance = {"tree", "", 9, {}};
  EXPECT_EQ(*both, expected);
  EXPECT_TRUE(check_form(*both, nullptr).empty());
}

TEST(Sequence, KeepsTheSymmetricForm) {
  Schedule first = make_schedule(
      {.collective = CollectiveKind::kReduceScatter, .rank_count = 3, .chunk_count = 3},
      {{0, 1, 1, 2, kReduce, 0}, {0, 1, 2, 0, kReduce, 1}});
  first.symmetry = Symmetry{{3}};
  Schedule second =
      make_schedule({.collective = CollectiveKind::kAllGather, .rank_count = 3, .chunk_count = 6},
                    {{0, 1, 0, 1, kCopy, 0},
                     {0, 1, 1, 2, kCopy, 1},
                     {1, 1, 0, 2, kCopy, 0},
                     {1, 1, 2, 1, kCopy, 1}});
  second.symmetry = Symmetry{{3}};
  const auto both = sequence(first, second, CollectiveKind::kAllReduce);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->symmetry, first.symmetry);
  EXPECT_TRUE(both->chunks == ChunkGrid::uniform(6));
  EXPECT_EQ(check_form(*both, nullptr), std::vector<std::string>{});
  // Expanding before or after is the same.
  const auto later = expand(*both, nullptr);
  const auto one = expand(first, nullptr), other = expand(second, nullptr);
  ASSERT_TRUE(later && one && other);
  const auto earlier = sequence(*one, *other, CollectiveKind::kAllReduce);
  ASSERT_TRUE(earlier);
  EXPECT_EQ(*later, *earlier);
}

// Parts of one source that are cut differently: refined, some have more chunks than others.
TEST(Sequence, RefusesToBreakTheSymmetricForm) {
  Schedule first = make_schedule({.collective = CollectiveKind::kAllToAll, .rank_count = 2}, {});
  first.symmetry = Symmetry{{2}};
  first.chunks = ChunkGrid::uniform(16);
  Schedule second = first;
  second.chunks = ChunkGrid::weighted({1, 3, 2, 2, 2, 2, 1, 3});
  ASSERT_EQ(check_form(first, nullptr), std::vector<std::string>{});
  ASSERT_EQ(check_form(second, nullptr), std::vector<std::string>{});
  const auto fine = sequence(first, second, CollectiveKind::kAllToAll);
  ASSERT_TRUE(fine) << fine.error().message;
  EXPECT_EQ(check_form(*fine, nullptr), std::vector<std::string>{});
  first.chunks = ChunkGrid::uniform(4);
  second.chunks = ChunkGrid::weighted({1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 2, 1});
  ASSERT_EQ(check_form(second, nullptr), std::vector<std::string>{});
  first.chunks = ChunkGrid::uniform(8);
  const auto broken = sequence(first, second, CollectiveKind::kAllToAll);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message.substr(0, 37), "the refined grid lacks the symmetry: ");
}

TEST(Sequence, KeepsElementsTogether) {
  Rng rng(3);
  for (int trial = 0; trial < 100; ++trial) {
    Schedule parts[2];
    for (Schedule& part : parts) {
      std::vector<int64_t> cut;
      for (uint64_t count = 1 + rng.below(5); count > 0; --count) {
        cut.push_back(static_cast<int64_t>(1 + rng.below(9)));
      }
      part = make_schedule({.rank_count = 2}, {});
      part.chunks = ChunkGrid::weighted(cut);
      for (int32_t chunk = 0; chunk < part.chunks.count(); ++chunk) {
        part.transfers.push_back(
            {.first_chunk = chunk, .source = NodeId{0}, .target = NodeId{1}, .op = kReduce});
      }
    }
    const auto both = sequence(parts[0], parts[1], CollectiveKind::kAllReduce);
    ASSERT_TRUE(both);
    const std::size_t first_count = parts[0].transfers.size();
    for (std::size_t i = 0; i < both->transfers.size(); ++i) {
      const Schedule& part = parts[i < first_count ? 0 : 1];
      const Transfer& moved = both->transfers[i];
      const Transfer& original = part.transfers[i < first_count ? i : i - first_count];
      const auto element_count = static_cast<int64_t>(rng.below(1000));
      EXPECT_EQ(both->chunks.boundary(moved.first_chunk, element_count),
                part.chunks.boundary(original.first_chunk, element_count));
      EXPECT_EQ(both->chunks.boundary(moved.first_chunk + moved.chunk_count, element_count),
                part.chunks.boundary(original.first_chunk + 1, element_count));
    }
  }
}

TEST(Sequence, RefusesWhatDoesNotFit) {
  const Schedule base = make_schedule({.rank_count = 2, .chunk_count = 4}, {});
  struct Case {
    std::string name;
    Schedule second;
    CollectiveKind result;
    std::string error;
  };
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, auto change, const std::string& error,
                       CollectiveKind result = CollectiveKind::kAllReduce) {
    cases.push_back({name, base, result, error});
    change(cases.back().second);
  };
  add(
      "participants", [](Schedule& s) { s.participants[1] = NodeId{2}; }, "participants differ");
  add(
      "symmetry", [](Schedule& s) { s.symmetry = Symmetry{{2}}; }, "symmetries differ");
  add(
      "space", [](Schedule& s) { s.collective = CollectiveKind::kAllToAll; }, "not of one space");
  add(
      "result", [](Schedule&) {}, "not of one space", CollectiveKind::kAllToAll);
  add(
      "steps", [](Schedule& s) { s.phase_steps = {kMaxScheduleSteps}; }, "steps are more than");
  add(
      "weights",
      [](Schedule& s) {
        s.chunks = ChunkGrid::weighted({INT64_MAX - 2, 2});
      },
      "no common multiple");
  add(
      "chunks",
      [](Schedule& s) {
        s.chunks = ChunkGrid::weighted({1, 2});
      },
      "");
  for (const Case& test : cases) {
    const auto both = sequence(base, test.second, test.result);
    EXPECT_EQ(both.has_value(), test.error.empty()) << test.name;
    if (!both) {
      EXPECT_NE(both.error().message.find(test.error), std::string::npos) << both.error().message;
    }
  }
}

}  // namespace
}  // namespace pleach
