// DeAR whose fusion threshold is searched for during training.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/search/bucket_tuner.h"

namespace pleach {
namespace {

class DearBo : public Policy {
 public:
  DearBo(const TrainingProfile& profile, const BucketTunerOptions& options)
      : space_(profile), tuner_(options), followed_(profile, plan_of_trial()) {}
  void observe(const PolicyEvent& event) override {
    const bool is_start = event.kind == EventKind::kForwardNeeded &&
                          event.index == space_.layer_of(0);  // the first with tensors
    if (is_start && tuner_.start_iteration(event.time_ps)) {
      followed_.replace(plan_of_trial());
    }
    followed_.observe(event);
  }
  void decide(int64_t now_ps, PolicyActions& actions) override {
    followed_.decide(now_ps, actions);
  }
  bool settled() const override { return space_.total_bytes() == 0 || tuner_.settled(); }

 private:
  Plan plan_of_trial() const {
    return decoupled_plan(fuse_by_threshold(space_, tuner_.size_bytes()));
  }

  ParameterSpace space_;
  BucketTuner tuner_;
  PlanPolicy followed_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  PLEACH_ASSIGN(tuner, bucket_tuner_options(options, setting.seed));
  return std::unique_ptr<Policy>(std::make_unique<DearBo>(setting.profile, tuner));
}

}  // namespace

extern const PolicyDescriptor kDearBoPolicy = {
    .name = "dear_bo",
    .summary = "dear, whose group size a Bayesian search finds in the first iterations",
    .source = "Zhang et al., DeAR, ICDCS 2023; the search as in its public code",
    .options = {{.name = "first",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "25MiB",
                 .summary = "bytes at which a group of layers closes, in the first trial"},
                {.name = "least",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "1MiB",
                 .summary = "least size tried"},
                {.name = "most",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "256MiB",
                 .summary = "greatest size tried"},
                {.name = "trials",
                 .default_value = "10",
                 .summary = "sizes tried, five iterations each, before the best one stays",
                 .least = 1,
                 .most = 100}},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .create = create,
};

}  // namespace pleach
