#include "pleach/workload/strategy_groups.h"

#include <algorithm>

#include "pleach/base/check.h"

namespace pleach {
namespace {

constexpr std::size_t kData = RankGrid::index(ParallelDimension::kData);
constexpr std::size_t kSequence = RankGrid::index(ParallelDimension::kSequence);
constexpr std::size_t kStage = RankGrid::index(ParallelDimension::kPipeline);
constexpr std::size_t kTensor = RankGrid::index(ParallelDimension::kTensor);

}  // namespace

std::vector<std::vector<int32_t>> strategy_groups(const Strategy& strategy, const RankGrid& grid,
                                                  FamilyRole role) {
  return grid.groups([&](Coordinates key) {
    switch (role) {
      case FamilyRole::kData:
        key[kData] = 0;
        key[kSequence] = 0;
        return key;
      case FamilyRole::kExpertData:
        key[kData] %= strategy.expert;
        key[kSequence] = 0;
        return key;
      case FamilyRole::kTensor:
        key[kTensor] = 0;
        return key;
      case FamilyRole::kSequence:
        key[kSequence] = 0;
        return key;
      case FamilyRole::kExpert:
        key[kData] /= strategy.expert;
        return key;
      default:
        PLEACH_CHECK(false, "a role whose groups do not follow from the strategy alone");
    }
  });
}

std::vector<std::vector<int32_t>> output_groups(const Strategy& strategy, const RankGrid& grid,
                                                int32_t source, int32_t target) {
  std::vector<std::vector<int32_t>> groups = grid.groups([&](Coordinates key) {
    key[kStage] = 0;
    key[kTensor] = strategy.multicast_outputs ? 0 : key[kTensor];
    return key;
  });
  for (std::vector<int32_t>& group : groups) {
    const auto is_source = [&](int32_t rank) {
      const Coordinates place = grid.coordinates(rank);
      return place[kStage] == source && (!strategy.multicast_outputs || place[kTensor] == 0);
    };
    std::erase_if(group, [&](int32_t rank) {
      return grid.coordinates(rank)[kStage] != target && !is_source(rank);
    });
    std::ranges::stable_partition(group, is_source);
  }
  return groups;
}

}  // namespace pleach
