// Prophet: blocks of gradients that end before more urgent ones are predicted to come.
#include <memory>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/priority.h"

namespace pleach {
namespace {

class Prophet : public Policy {
 public:
  explicit Prophet(const PolicySetting& setting)
      : costs_(setting.costs),
        space_(setting.profile),
        pieces_(space_, INT64_MAX),
        until_next_ps_(setting.profile.layers.size(), -1) {
    int64_t backward_ps = -1;  // since the last layer with gradients; −1: there is none before
    for (int32_t layer = 0; layer < space_.layer_count(); ++layer) {
      until_next_ps_[at(layer)] = backward_ps;
      if (space_.layer(layer).size() > 0) {
        backward_ps = 0;
      }
      if (backward_ps >= 0) {
        backward_ps += setting.profile.layers[at(layer)].backward_ps;
      }
    }
  }

  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kCollectiveFinished) {
      --under_way_;
    } else if (event.kind == EventKind::kGradientReady && space_.layer(event.index).size() > 0) {
      pieces_.gradient_ready(event.index);
      const int64_t wait_ps = until_next_ps_[at(event.index)];
      next_ready_ps_ = wait_ps < 0 ? -1 : event.time_ps + wait_ps;
    }
  }

  // A block is not preempted, so the next is chosen when it has ended.
  void decide(int64_t now_ps, PolicyActions& actions) override {
    if (under_way_ > 0 || pieces_.empty()) {
      return;
    }
    for (const ByteRange& range : next_block(now_ps)) {
      actions.start.push_back({CollectiveKind::kAllReduce, range});
      ++under_way_;
    }
  }

 private:
  // The most urgent ready tensors, as many as end before the next gradient comes, but one at
  // least: to wait idly for it would gain nothing. One only, where no other is to come.
  std::vector<ByteRange> next_block(int64_t now_ps) {
    std::vector<ByteRange> block = {pieces_.front()};
    pieces_.pop();
    int64_t before_ps = 0;  // time of all but the last range
    while (next_ready_ps_ >= 0 && !pieces_.empty()) {
      const ByteRange tensor = pieces_.front();
      ByteRange last = tensor;
      int64_t earlier_ps = before_ps;
      const bool is_neighbour = block.back().end == tensor.begin;
      if (is_neighbour) {
        last.begin = block.back().begin;
      } else {
        earlier_ps += time_of(block.back());
      }
      if (now_ps + earlier_ps + time_of(last) > next_ready_ps_) {
        break;
      }
      if (is_neighbour) {
        block.pop_back();
      }
      block.push_back(last);
      before_ps = earlier_ps;
      pieces_.pop();
    }
    return block;
  }
  int64_t time_of(ByteRange range) const {
    return costs_.time_ps(CollectiveKind::kAllReduce, range.size());
  }

  const CostModel& costs_;
  ParameterSpace space_;
  ReadyPieces pieces_;  // whole tensors
  // By layer with gradients: from them to the next layer's that has any; −1: it is the last.
  std::vector<int64_t> until_next_ps_;
  int64_t next_ready_ps_ = -1;  // predicted; −1: all gradients of this iteration are there
  int32_t under_way_ = 0;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& /*options*/) {
  return std::unique_ptr<Policy>(std::make_unique<Prophet>(setting));
}

}  // namespace

extern const PolicyDescriptor kProphetPolicy = {
    .name = "prophet",
    .summary = "all_reduce of blocks that end before more urgent gradients are predicted to come",
    .source = "Zhang et al., Prophet, ICPP 2021",
    .options = {},
    .collectives = {CollectiveKind::kAllReduce},
    .plans_by_costs = true,
    .create = create,
};

}  // namespace pleach
