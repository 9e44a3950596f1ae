#include "pleach/fabric/route_heuristic.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/fabric/subnetwork_kinds.h"

namespace pleach {
namespace {

constexpr std::size_t kMostFlows = 4096;
constexpr int64_t kLeastTenure = 8;

// Two flows that must part by one of the first `levels` choices.
struct Meeting {
  int32_t other = 0;
  int32_t levels = 0;
};

class TabuSearch {
 public:
  TabuSearch(const FredSize& size, std::span<const PortFlow> flows)
      : middle_(size.middle),
        levels_(size.levels()),
        meetings_(flows.size()),
        kinds_(size, flows, levels_),
        met_(flows.size(), 0),
        rng_(1) {
    for (int32_t flow = 0; flow < count_of(flows); ++flow) {
      for (int32_t other = 0; other < flow; ++other) {
        if (const int32_t levels = meet_after(flows[at(flow)], flows[at(other)]); levels > 0) {
          meetings_[at(flow)].push_back({other, levels});
          meetings_[at(other)].push_back({flow, levels});
        }
      }
      for (int32_t level = 0; level < levels_; ++level) {
        choices_.push_back(static_cast<int32_t>(rng_.below(static_cast<uint64_t>(middle_))));
      }
    }
    tabu_until_.assign(choices_.size() * at(middle_), 0);
  }

  std::optional<std::vector<int32_t>> run(SearchBudget& budget) {
    for (int32_t flow = 0; flow < count_of(meetings_); ++flow) {
      met_[at(flow)] += is_barred(flow) ? 1 : 0;
      for (const Meeting& meeting : meetings_[at(flow)]) {
        met_[at(flow)] += meets(flow, meeting) ? 1 : 0;
      }
    }
    for (int64_t move = 1; budget.left > 0; ++move) {
      std::vector<int32_t> met;
      for (int32_t flow = 0; flow < count_of(met_); ++flow) {
        if (met_[at(flow)] > 0) {
          met.push_back(flow);
        }
      }
      if (met.empty()) {
        return choices_;
      }
      const int32_t flow = met[rng_.below(met.size())];
      budget.spend(1 + (count_of(met_) + count_of(meetings_[at(flow)]) * levels_) / 8);
      move_one(flow, move);
    }
    return std::nullopt;
  }

 private:
  // The fewest halvings after which two flows share a port on a side; 0: they never do.
  int32_t meet_after(const PortFlow& one, const PortFlow& other) const {
    for (int32_t level = 1; level <= levels_; ++level) {
      const auto share = [level](std::span<const int32_t> left, std::span<const int32_t> right) {
        auto next = right.begin();
        for (const int32_t port : left) {
          while (next != right.end() && (*next >> level) < (port >> level)) {
            ++next;
          }
          if (next != right.end() && (*next >> level) == (port >> level)) {
            return true;
          }
        }
        return false;
      };
      if (share(one.inputs, other.inputs) || share(one.outputs, other.outputs)) {
        return level;
      }
    }
    return 0;
  }

  int32_t choice(int32_t flow, int32_t level) const { return choices_[at(flow * levels_ + level)]; }

  // Whether it runs into what is dead.
  bool is_barred(int32_t flow) const {
    return !kinds_.carries_by(std::span(choices_).subspan(at(flow * levels_), at(levels_)), flow);
  }

  bool meets(int32_t flow, const Meeting& meeting) const {
    for (int32_t level = 0; level < meeting.levels; ++level) {
      if (choice(flow, level) != choice(meeting.other, level)) {
        return false;
      }
    }
    return true;
  }

  // Adds `by` to what the flow and those that it meets meet.
  void count_meetings(int32_t flow, int32_t by) {
    met_[at(flow)] += is_barred(flow) ? by : 0;
    for (const Meeting& meeting : meetings_[at(flow)]) {
      if (meets(flow, meeting)) {
        met_[at(flow)] += by;
        met_[at(meeting.other)] += by;
      }
    }
  }

  // cost[level × middle + choice]: what the flow would meet after that one change.
  std::vector<int64_t> costs(int32_t flow) {
    std::vector<int64_t> cost(at(levels_ * middle_), 0);
    for (const auto& [other, levels] : meetings_[at(flow)]) {
      int32_t differ = -1;
      int32_t differences = 0;
      for (int32_t level = 0; level < levels; ++level) {
        if (choice(flow, level) != choice(other, level)) {
          differ = level;
          ++differences;
        }
      }
      for (int32_t level = 0; level < levels_; ++level) {
        const auto row = at(level * middle_);
        const bool others_agree = differences == 0 || (differences == 1 && differ == level);
        if (level < levels && others_agree) {
          ++cost[row + at(choice(other, level))];
        } else if (level >= levels && differences == 0) {
          std::for_each_n(cost.begin() + static_cast<std::ptrdiff_t>(row), middle_,
                          [](int64_t& value) { ++value; });
        }
      }
    }
    for (int32_t change = 0; !kinds_.is_sound(kinds_.outermost()) && change < count_of(cost);
         ++change) {
      int32_t& own = choices_[at(flow * levels_ + change / middle_)];
      const int32_t before = std::exchange(own, change % middle_);
      cost[at(change)] += is_barred(flow) ? 1 : 0;
      own = before;
    }
    return cost;
  }

  void move_one(int32_t flow, int64_t move) {
    const std::vector<int64_t> cost = costs(flow);
    int64_t least = std::numeric_limits<int64_t>::max();
    std::vector<std::size_t> best;
    for (std::size_t change = 0; change < cost.size(); ++change) {
      const int32_t level = static_cast<int32_t>(change) / middle_;
      const bool is_tabu = tabu_until_[at(flow * levels_ * middle_) + change] > move;
      const bool stays = choice(flow, level) == static_cast<int32_t>(change) % middle_;
      if (stays || (is_tabu && cost[change] > 0) || cost[change] > least) {
        continue;
      }
      if (cost[change] < least) {
        least = cost[change];
        best.clear();
      }
      best.push_back(change);
    }
    if (best.empty()) {
      return;
    }
    const std::size_t change = best[rng_.below(best.size())];
    const int32_t level = static_cast<int32_t>(change) / middle_;
    const auto old = at((flow * levels_ + level) * middle_ + choice(flow, level));
    tabu_until_[old] = move + kLeastTenure + static_cast<int64_t>(rng_.below(kLeastTenure));
    count_meetings(flow, -1);
    choices_[at(flow * levels_ + level)] = static_cast<int32_t>(change) % middle_;
    count_meetings(flow, 1);
  }

  const int32_t middle_;
  const int32_t levels_;
  std::vector<std::vector<Meeting>> meetings_;
  const SubnetworkKinds kinds_;
  std::vector<int32_t> met_;  // how many each flow meets
  std::vector<int32_t> choices_;
  std::vector<int64_t> tabu_until_;  // flow × level × choice: not before this move
  Rng rng_;
};

}  // namespace

std::optional<std::vector<int32_t>> look_for_choices(const FredSize& size,
                                                     std::span<const PortFlow> flows,
                                                     SearchBudget& budget) {
  if (flows.size() > kMostFlows) {
    return std::nullopt;
  }
  return TabuSearch(size, flows).run(budget);
}

}  // namespace pleach
