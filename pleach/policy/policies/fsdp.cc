// FSDP: parameters live in shards; blocks of layers are gathered just before they are used.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_queue.h"

namespace pleach {
namespace {

// A group is gathered when the ranks have come to the one before it, or to the first, in that
// direction.
class Fsdp : public Policy {
 public:
  Fsdp(const ParameterSpace& space, std::vector<ByteRange> groups, bool reshards)
      : groups_(std::move(groups)),
        reductions_(space, scatter_plan(groups_)),
        reshards_(reshards),
        needed_(groups_.size()),
        // Before the first iteration whole parameters are there, unless they are dropped after use.
        next_forward_(reshards ? 0 : groups_.size()),
        next_backward_(groups_.size()) {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      needed_[group].first_layer = space.layer_of(groups_[group].begin);
      needed_[group].last_layer = space.layer_of(groups_[group].end - 1);
    }
  }
  PolicyNeeds needs() const override { return {.frees_parameters = reshards_}; }

  void observe(const PolicyEvent& event) override {
    switch (event.kind) {
      case EventKind::kGradientReady:
        reductions_.gradient_ready(event.index);
        return;
      case EventKind::kCollectiveFinished:
        reducing_.erase(event.index);
        return;
      case EventKind::kForwardNeeded:
        for (Needed& group : needed_) {
          group.forwards += group.first_layer == event.index ? 1 : 0;
        }
        return;
      case EventKind::kBackwardNeeded:
        for (Needed& group : needed_) {
          group.backwards += group.last_layer == event.index ? 1 : 0;
        }
        return;
      case EventKind::kWake:
        return;
    }
  }

  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    while (const std::optional<PolicyCollective> one = reductions_.take()) {
      start(one->kind, one->range, actions);
      if (reductions_.is_fresh()) {  // the iteration's last
        ++iteration_;
        next_forward_ = 0;
        next_backward_ = groups_.size();
      }
    }
    // Shards are updated when all gradients are reduced.
    while (reducing_.empty() && next_forward_ < groups_.size() &&
           needed_[std::max<std::size_t>(next_forward_, 1) - 1].forwards > iteration_) {
      start(CollectiveKind::kAllGather, groups_[next_forward_++], actions);
    }
    while (reshards_ && next_backward_ > 0 &&
           needed_[std::min(next_backward_, groups_.size() - 1)].backwards > iteration_) {
      start(CollectiveKind::kAllGather, groups_[--next_backward_], actions);
    }
  }

 private:
  // Iterations in which the ranks have come to the group, so far: to its first layer in forward, to
  // its last one in backward.
  struct Needed {
    int32_t first_layer = 0;
    int32_t last_layer = 0;
    int64_t forwards = 0;
    int64_t backwards = 0;
  };

  void start(CollectiveKind kind, ByteRange range, PolicyActions& actions) {
    actions.start.push_back({kind, range});
    if (kind == CollectiveKind::kReduceScatter) {
      reducing_.insert(next_number_);
    }
    ++next_number_;
  }

  std::vector<ByteRange> groups_;  // in forward order
  PlanQueue reductions_;           // of groups, in backward order
  bool reshards_;
  std::vector<Needed> needed_;  // by group
  std::set<int32_t> reducing_;  // numbers of the reductions that have not finished
  int32_t next_number_ = 0;
  int64_t iteration_ = 0;      // whose gradients are being collected
  std::size_t next_forward_;   // the group to gather next for forward
  std::size_t next_backward_;  // the one after the group to gather next for backward
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  return std::unique_ptr<Policy>(std::make_unique<Fsdp>(
      ParameterSpace(setting.profile),
      fuse_by_threshold(blocks_of(setting.profile), options.number("bucket")),
      options.integer("reshard_after_forward") == 1));
}

}  // namespace

extern const PolicyDescriptor kFsdpPolicy = {
    .name = "fsdp",
    .summary = "parameters in shards: blocks gathered before use, one ahead, gradients scattered",
    .source = "Zhao et al., PyTorch FSDP, VLDB 2023, sec. 3",
    .options = {{.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "0",
                 .summary = "bytes at which a group of blocks closes; 0: every block by itself"},
                {.name = "reshard_after_forward",
                 .kind = OptionDescriptor::Kind::kInteger,
                 .default_value = "1",
                 .summary = "1: drop parameters after forward, gather them again for backward",
                 .least = 0,
                 .most = 1}},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .zero_stage = 3,
    .create = create,
};

}  // namespace pleach
