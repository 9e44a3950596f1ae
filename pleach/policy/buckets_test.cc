// Fusion of known networks, and merging against hand calculations and brute force.
#include "pleach/policy/buckets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

constexpr int64_t kMiB = 1 << 20;

// Layers of float32 tensors, by their number of elements.
TrainingProfile of_elements(const std::vector<std::vector<int64_t>>& layers) {
  TrainingProfile profile;
  for (const std::vector<int64_t>& layer : layers) {
    PolicyLayer& one = profile.layers.emplace_back();
    for (const int64_t elements : layer) {
      one.tensor_bytes.push_back(4 * elements);
    }
  }
  return profile;
}

// A convolution without bias and its batch norm.
void add_convolution(std::vector<std::vector<int64_t>>& layers, int64_t in, int64_t out,
                     int64_t width) {
  layers.push_back({in * out * width * width});
  layers.push_back({out, out});
}

// He et al., Deep Residual Learning, CVPR 2016, table 1, modules in the order of definition.
TrainingProfile resnet50() {
  std::vector<std::vector<int64_t>> layers;
  add_convolution(layers, 3, 64, 7);
  int64_t in = 64;
  const int64_t blocks_of_stage[] = {3, 4, 6, 3};
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks_of_stage[stage]; ++block) {
      add_convolution(layers, in, width, 1);
      add_convolution(layers, width, width, 3);
      add_convolution(layers, width, 4 * width, 1);
      if (block == 0) {
        add_convolution(layers, in, 4 * width, 1);
      }
      in = 4 * width;
    }
  }
  layers.push_back({in * 1000, 1000});
  return of_elements(layers);
}

// Huang et al., Densely Connected Networks, CVPR 2017, table 1: growth 32, batch norm first.
TrainingProfile densenet201() {
  std::vector<std::vector<int64_t>> layers;
  add_convolution(layers, 3, 64, 7);
  int64_t channels = 64;
  for (const int64_t blocks : {6, 12, 48, 32}) {
    for (int64_t block = 0; block < blocks; ++block) {
      layers.push_back({channels, channels});
      add_convolution(layers, channels, 128, 1);
      layers.push_back({128 * 32 * 9});
      channels += 32;
    }
    layers.push_back({channels, channels});
    if (blocks != 32) {  // no transition after the last
      layers.push_back({channels * channels / 2});
      channels /= 2;
    }
  }
  layers.push_back({channels * 1000, 1000});
  return of_elements(layers);
}

TEST(FuseByThreshold, GroupsOfKnownNetworks) {
  const struct {
    TrainingProfile profile;
    int32_t layers;
    int64_t bytes;
    std::size_t groups_at_25, groups_at_5, groups_at_64;
  } cases[] = {{resnet50(), 107, 4 * 25'557'032, 5, 19, 2},
               {densenet201(), 402, 4 * 20'013'928, 4, 16, 2}};
  for (const auto& one : cases) {
    const ParameterSpace space(one.profile);
    ASSERT_EQ(space.layer_count(), one.layers);
    ASSERT_EQ(space.total_bytes(), one.bytes);
    EXPECT_EQ(fuse_by_threshold(space, 25 * kMiB).size(), one.groups_at_25);
    EXPECT_EQ(fuse_by_threshold(space, 5 * kMiB).size(), one.groups_at_5);
    EXPECT_EQ(fuse_by_threshold(space, 64 * kMiB).size(), one.groups_at_64);
    EXPECT_EQ(fuse_by_threshold(space, 0).size(), at(one.layers));
  }
}

TEST(FuseByThreshold, ClosesBeforeTheThresholdIsReached) {
  TrainingProfile profile;
  for (const auto& tensors : std::vector<std::vector<int64_t>>{{4}, {}, {3, 2}, {1}, {20}, {1}}) {
    profile.layers.push_back({.tensor_bytes = tensors});
  }
  const ParameterSpace space(profile);
  EXPECT_EQ(fuse_by_threshold(space, 10),
            (std::vector<ByteRange>{{0, 9}, {9, 10}, {10, 30}, {30, 31}}));
  EXPECT_EQ(fuse_by_threshold(space, 11), (std::vector<ByteRange>{{0, 10}, {10, 30}, {30, 31}}));
}

TEST(BlocksOf, AreRunsOfLayersWithParameters) {
  TrainingProfile profile;
  for (const auto& [bytes, continues] : std::vector<std::pair<int64_t, bool>>{
           {4, false}, {0, false}, {3, true}, {2, true}, {0, false}, {0, true}, {5, false}}) {
    PolicyLayer& layer = profile.layers.emplace_back();
    layer.continues_block = continues;
    if (bytes > 0) {
      layer.tensor_bytes = {bytes};
    }
  }
  const std::vector<ByteRange> blocks = blocks_of(profile);
  EXPECT_EQ(blocks, (std::vector<ByteRange>{{0, 4}, {4, 9}, {9, 14}}));
  EXPECT_EQ(fuse_by_threshold(blocks, 10), (std::vector<ByteRange>{{0, 9}, {9, 14}}));
}

TEST(FuseBackward, BucketsOfResnet50) {
  const std::vector<ByteRange> buckets = fuse_backward(ParameterSpace(resnet50()), kMiB, 25 * kMiB);
  std::vector<double> mebibytes;
  for (const ByteRange& bucket : buckets) {
    mebibytes.push_back(std::round(static_cast<double>(bucket.size() * 10) / kMiB) / 10);
  }
  EXPECT_EQ(mebibytes, (std::vector<double>{7.8, 30.0, 25.0, 25.3, 9.3}));
}

TEST(CutRange, LeavesARest) {
  const ParameterSpace space(
      {.layers = {{.tensor_bytes = {20}}}, .atom_bytes = std::vector<int64_t>(20, 1)});
  EXPECT_EQ(cut_range(space, {5, 12}, 3), (std::vector<ByteRange>{{5, 8}, {8, 11}, {11, 12}}));
  EXPECT_EQ(cut_range(space, {5, 11}, 3), (std::vector<ByteRange>{{5, 8}, {8, 11}}));
  EXPECT_EQ(cut_range(space, {5, 5}, 3), (std::vector<ByteRange>{}));
}

TEST(CutRange, CutsAtTheNearestAtoms) {
  const ParameterSpace space(
      {.layers = {{.tensor_bytes = {20}}}, .atom_bytes = {1, 5, 1, 9, 4}});  // at 1, 6, 7, 16
  EXPECT_EQ(cut_range(space, {0, 20}, 5),
            (std::vector<ByteRange>{{0, 6}, {6, 7}, {7, 16}, {16, 20}}));
  EXPECT_EQ(cut_range(space, {0, 20}, 8), (std::vector<ByteRange>{{0, 7}, {7, 16}, {16, 20}}));
  EXPECT_EQ(cut_range(space, {0, 20}, 1),
            (std::vector<ByteRange>{{0, 1}, {1, 6}, {6, 7}, {7, 16}, {16, 20}}));
}

// Six layers of which atoms join the second and third, and the end of the fourth with the fifth.
TEST(FuseByThreshold, FusesWhatSharesAnAtom) {
  TrainingProfile profile;
  for (const auto& tensors : std::vector<std::vector<int64_t>>{{4}, {1}, {2}, {6, 2}, {1}, {5}}) {
    profile.layers.push_back({.tensor_bytes = tensors});
  }
  profile.atom_bytes = {4, 3, 6, 3, 5};
  const ParameterSpace space(profile);
  EXPECT_EQ(fuse_by_threshold(space, 0),
            (std::vector<ByteRange>{{0, 4}, {4, 7}, {7, 16}, {16, 21}}));
  EXPECT_EQ(space.tensors(), (std::vector<ByteRange>{{0, 4}, {4, 7}, {7, 13}, {13, 16}, {16, 21}}));
  EXPECT_EQ(fuse_backward(space, 6, 8), (std::vector<ByteRange>{{13, 21}, {4, 13}, {0, 4}}));
}

// startup + per_byte · bytes.
class Affine : public CostModel {
 public:
  Affine(int64_t startup_ps, int64_t per_byte_ps)
      : startup_ps_(startup_ps), per_byte_ps_(per_byte_ps) {}
  bool has(CollectiveKind /*kind*/) const override { return true; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t bytes) const override {
    return startup_ps_ + per_byte_ps_ * bytes;
  }

 private:
  int64_t startup_ps_;
  int64_t per_byte_ps_;
};

int64_t end_ps(const std::vector<TimedTensor>& tensors, const std::vector<ByteRange>& groups,
               const CostModel& costs) {
  int64_t now_ps = 0;
  auto tensor = tensors.begin();
  for (const ByteRange& group : groups) {
    for (; tensor != tensors.end() && tensor->range.begin >= group.begin; ++tensor) {
      now_ps = std::max(now_ps, tensor->ready_ps);
    }
    now_ps += costs.time_ps(CollectiveKind::kAllReduce, group.size());
  }
  return now_ps;
}

// Four tensors of 1000 bytes, 4 ns of backward each; an all_reduce of n of them takes 5 + 5n ns.
TEST(Merge, GreedyAndOptimalOnFourTensors) {
  TrainingProfile profile;
  profile.layers.assign(4, {.tensor_bytes = {1000}, .forward_ps = 0, .backward_ps = 4000});
  const Affine costs(5000, 5);
  const std::vector<TimedTensor> tensors = backward_order(profile);
  const std::vector<ByteRange> greedy = merge_greedily(tensors, costs);
  EXPECT_EQ(greedy, (std::vector<ByteRange>{{0, 4000}}));
  EXPECT_EQ(end_ps(tensors, greedy, costs), 41'000);
  const std::vector<ByteRange> optimal = merge_optimally(tensors, costs);
  EXPECT_EQ(optimal, (std::vector<ByteRange>{{3000, 4000}, {0, 3000}}));
  EXPECT_EQ(end_ps(tensors, optimal, costs), 36'000);
}

TEST(Merge, GreedyWaitsForLessThanAStartup) {
  const struct {
    int64_t startup_ps;
    std::size_t groups;
  } cases[] = {{4000, 2}, {4001, 1}};  // the second tensor comes 4000 ps after the first
  TrainingProfile profile;
  profile.layers.assign(2, {.tensor_bytes = {1000}, .forward_ps = 0, .backward_ps = 4000});
  for (const auto& one : cases) {
    const Affine costs(one.startup_ps, 0);
    EXPECT_EQ(merge_greedily(backward_order(profile), costs).size(), one.groups);
  }
}

TEST(Merge, OptimalIsTheBestOfAllPartitions) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    TrainingProfile profile;
    for (uint64_t layer = 0; layer < 8; ++layer) {
      profile.layers.push_back({.tensor_bytes = {1 + static_cast<int64_t>(rng.below(1000))},
                                .forward_ps = 0,
                                .backward_ps = static_cast<int64_t>(rng.below(5000))});
    }
    const Affine costs(static_cast<int64_t>(rng.below(3000)), static_cast<int64_t>(rng.below(8)));
    const std::vector<TimedTensor> tensors = backward_order(profile);
    int64_t least_ps = INT64_MAX;
    for (uint32_t cuts = 0; cuts < 128; ++cuts) {
      std::vector<ByteRange> groups = {tensors[0].range};
      for (std::size_t at = 1; at < tensors.size(); ++at) {
        if ((cuts >> (at - 1) & 1U) != 0) {
          groups.push_back(tensors[at].range);
        }
        groups.back().begin = tensors[at].range.begin;
      }
      least_ps = std::min(least_ps, end_ps(tensors, groups, costs));
    }
    EXPECT_EQ(end_ps(tensors, merge_optimally(tensors, costs), costs), least_ps);
    EXPECT_GE(end_ps(tensors, merge_greedily(tensors, costs), costs), least_ps);
  }
}

}  // namespace
}  // namespace pleach
