#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

class IndependentNetwork : public TraceNetwork {
 public:
  explicit IndependentNetwork(OperationCosts& costs) : costs_(costs) {}

  Result<int32_t> start(const GroupCollective& what, int64_t now_ps) override {
    PLEACH_ASSIGN(duration, costs_.collective_ps(what));
    return add(now_ps, duration, what.size_bytes);
  }
  Result<int32_t> start(const WorkerSend& what, int64_t now_ps) override {
    PLEACH_ASSIGN(duration, costs_.send_ps(what));
    return add(now_ps, duration, what.size_bytes);
  }
  std::optional<int64_t> next_ps() const override {
    return ends_.empty() ? std::nullopt : std::optional(ends_.top().first);
  }
  Result<std::vector<Finish>> advance(int64_t until_ps) override {
    std::vector<Finish> finishes;
    while (!ends_.empty() && ends_.top().first <= until_ps &&
           (finishes.empty() || ends_.top().first == finishes.front().time_ps)) {
      finishes.push_back({ends_.top().second, ends_.top().first});
      ends_.pop();
    }
    return finishes;
  }

 private:
  using End = std::pair<int64_t, int32_t>;  // time, operation

  Result<int32_t> add(int64_t now_ps, int64_t duration_ps, int64_t size_bytes) {
    if (duration_ps > kLongestPs) {
      return invalid(fmt::format("to move {} bytes takes over {}", size_bytes, kLongestText));
    }
    ends_.emplace(now_ps + duration_ps, count_);
    return count_++;
  }

  OperationCosts& costs_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  int32_t count_ = 0;
};

class AlphaBetaCosts : public TraceCosts {
 public:
  AlphaBetaCosts(const Trace& trace, const RingOptions& options)
      : message_(link_of(options, std::string(kPipelineFamily))) {
    for (const Family& family : trace.families) {
      std::size_t largest = 1;
      for (const auto& group : family.groups) {
        largest = std::max(largest, group.size());
      }
      const auto [alpha_ps, bandwidth] = link_of(options, family.name);
      families_.emplace_back(static_cast<int32_t>(largest), alpha_ps, bandwidth,
                             options.overhead_ps);
    }
  }
  Result<int64_t> collective_ps(const GroupCollective& what) override {
    const AlphaBeta& costs = families_[at(what.family)];
    if (!costs.has(what.kind)) {
      return Error{ErrorCode::kUnsupported,
                   std::string("alpha-beta costs have no ") + std::string(to_text(what.kind))};
    }
    return costs.time_ps(what.kind, what.size_bytes);
  }
  Result<int64_t> send_ps(const WorkerSend& what) override {
    const double time_ps =
        std::ceil(static_cast<double>(what.size_bytes) / message_.bandwidth_bytes_per_s *
                  static_cast<double>(kPicosecondsPerSecond)) +
        static_cast<double>(message_.alpha_ps);
    return time_ps < static_cast<double>(kLongestPs) ? static_cast<int64_t>(time_ps)
                                                     : kLongestPs + 1;
  }
  Result<const CostModel*> family_costs(int32_t family,
                                        std::span<const CollectiveKind> /*kinds*/) override {
    return static_cast<const CostModel*>(&families_[at(family)]);
  }

 private:
  struct Link {
    int64_t alpha_ps = 0;
    double bandwidth_bytes_per_s = 0;
  };
  static Link link_of(const RingOptions& options, const std::string& family) {
    Link link = {options.alpha_ps, options.bandwidth_bytes_per_s};
    if (const auto own = options.families.find(family); own != options.families.end()) {
      link.alpha_ps = own->second.alpha_ps.value_or(link.alpha_ps);
      link.bandwidth_bytes_per_s =
          own->second.bandwidth_bytes_per_s.value_or(link.bandwidth_bytes_per_s);
    }
    return link;
  }

  const Link message_;
  std::vector<AlphaBeta> families_;
};

}  // namespace

std::unique_ptr<TraceCosts> alpha_beta_costs(const Trace& trace, const RingOptions& options) {
  return std::make_unique<AlphaBetaCosts>(trace, options);
}

std::unique_ptr<TraceNetwork> independent_network(OperationCosts& costs) {
  return std::make_unique<IndependentNetwork>(costs);
}

}  // namespace pleach
