// JointLanes: lanes for several streams at once, each beside all the others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/network/switch_ways.h"

namespace pleach {

// Remembers what it has found, so that what is asked again costs a look into a table.
class JointLanes {
 public:
  struct Stream {
    const SwitchWay* way = nullptr;
    const Lanes* start = nullptr;  // these are tried first
  };
  struct Question {
    // Whether a stop of a stream fits on these lanes beside those that have been put.
    std::function<bool(std::size_t stream, std::size_t stop, const Lanes& lanes)> fits;
    std::function<void(std::size_t stream, std::size_t stop, const Lanes& lanes)> put;
    std::function<void(std::size_t stream, std::size_t stop, const Lanes& lanes)> take_back;
    // Lanes of one group are as good as one another, while nobody has them.
    std::function<int32_t(LinkId link, int32_t lane)> group_of;
  };
  struct Answer {
    std::vector<Lanes> lanes;  // by stream; empty: none were found
    bool is_certain = false;   // they were, or there are none
  };

  // The answer is to be the same whenever `key` is: it names the streams in their order, and all
  // that is beside them. Of streams that hold a lane no two get the same. First they are put one
  // after the other, each on the first lanes that fit, and who fits nowhere comes first next time,
  // from random lanes on; then all lanes are tried, of the stop with the fewest that fit first.
  //   cost  at most kMostSteps questions, and no more than a sixteenth of what is left of
  //         kMostInAll, that of all searches together
  const Answer& find(const std::vector<int32_t>& key, std::span<const Stream> streams,
                     const Question& question);
  static constexpr int32_t kMostSteps = 16'384;
  static constexpr int32_t kMostInAll = 16 * kMostSteps;

 private:
  static constexpr std::size_t kMostKnown = std::size_t{1} << 20;  // numbers in keys and answers

  std::map<std::vector<int32_t>, Answer> known_;
  std::size_t numbers_known_ = 0;
  int32_t steps_left_ = kMostInAll;
};

}  // namespace pleach
