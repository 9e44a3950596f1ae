// Work-conserving: a plan made before training, from profile and costs, that keeps the channel
// busy.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/builtin.h"
#include "pleach/policy/plan_search.h"

namespace pleach {
namespace {

std::vector<ByteRange> reductions_of(const Plan& plan) {
  std::vector<ByteRange> ranges;
  for (const PolicyCollective& one : plan) {
    if (one.kind != CollectiveKind::kAllGather) {
      ranges.push_back(one.range);
    }
  }
  return ranges;
}

// Starts the collectives of the plan in their order, each as soon as it is legal.
class WorkConserving : public Policy {
 public:
  WorkConserving(const ParameterSpace& space, Plan plan)
      : plan_(std::move(plan)), gradients_(space, reductions_of(plan_)) {
    for (std::size_t index = 0; index < plan_.size(); ++index) {
      const ByteRange range = plan_[index].range;
      int32_t after = 0;
      for (std::size_t before = 0; before < index; ++before) {
        const ByteRange other = plan_[before].range;
        if (plan_[before].kind == CollectiveKind::kReduceScatter && other.begin < range.end &&
            range.begin < other.end) {
          after = static_cast<int32_t>(before) + 1;
        }
      }
      after_.push_back(after);
    }
  }

  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      gradients_.gradient_ready(event.index);
    } else if (event.kind == EventKind::kCollectiveFinished) {
      ++finished_;
    }
  }

  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    while (!plan_.empty()) {
      const PolicyCollective& next = plan_[next_];
      if (next.kind == CollectiveKind::kAllGather) {
        if (finished_ < started_before_ + after_[next_]) {
          return;
        }
      } else if (!gradients_.take().has_value()) {
        return;
      }
      actions.start.push_back(next);
      if (++next_ == plan_.size()) {
        next_ = 0;
        started_before_ += static_cast<int64_t>(plan_.size());
      }
    }
  }

 private:
  const Plan plan_;
  std::vector<int32_t> after_;  // by collective: how many of the plan must have finished before it
  BucketQueue gradients_;       // of the plan's reductions
  std::size_t next_ = 0;
  int64_t started_before_ = 0;  // collectives of earlier iterations
  int64_t finished_ = 0;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const CostModel& costs = setting.costs;
  if (!costs.has(CollectiveKind::kAllReduce) &&
      !(costs.has(CollectiveKind::kReduceScatter) && costs.has(CollectiveKind::kAllGather))) {
    return Error{ErrorCode::kUnsupported,
                 "policy work_conserving needs all_reduce, or reduce_scatter and all_gather, which "
                 "the algorithm does not do"};
  }
  Plan plan = search_plan(setting.profile, costs,
                          {.least_bytes = options.number("piece"),
                           .effort = 1000 * options.integer("effort"),
                           .seed = setting.seed});
  return std::unique_ptr<Policy>(
      std::make_unique<WorkConserving>(ParameterSpace(setting.profile), std::move(plan)));
}

}  // namespace

const PolicyDescriptor kWorkConservingPolicy = {
    .name = "work_conserving",
    .summary = "a searched plan: all_gathers fill idle slots of backward, partitions of their own",
    .source = "Zhang et al., DeAR, ICDCS 2023, for what may run when; the search is Pleach's own",
    .options = {{.name = "piece",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "0",
                 .summary = "least bytes of a collective; 0: 1/256 of the model"},
                {.name = "effort",
                 .default_value = "2000",
                 .summary = "thousands of collectives that the search for a plan may place"}},
    .collectives = {},
    .create = create,
};

}  // namespace pleach
