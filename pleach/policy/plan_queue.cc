#include "pleach/policy/plan_queue.h"

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

int64_t shared_bytes(ByteRange one, ByteRange other) {
  return std::min(one.end, other.end) - std::max(one.begin, other.begin);
}

}  // namespace

PlanQueue::PlanQueue(const ParameterSpace& space, Plan plan) : space_(space) {
  set(std::move(plan));
}

void PlanQueue::set(Plan plan) {
  plan_ = std::move(plan);
  shares_of_layer_.assign(at(space_.layer_count()), {});
  shares_of_reduction_.assign(plan_.size(), {});
  missing_bytes_.clear();
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    const PolicyCollective& one = plan_[index];
    missing_bytes_.push_back(one.range.size());
    if (!reduces(one.kind)) {
      for (std::size_t before = 0; before < index; ++before) {
        const int64_t bytes = shared_bytes(plan_[before].range, one.range);
        if (reduces(plan_[before].kind) && bytes > 0) {
          shares_of_reduction_[before].push_back({index, bytes});
        }
      }
      continue;
    }
    for (int32_t layer = space_.layer_of(one.range.begin);
         layer < space_.layer_count() && space_.layer(layer).begin < one.range.end; ++layer) {
      shares_of_layer_[at(layer)].push_back({index, shared_bytes(space_.layer(layer), one.range)});
    }
  }
}

void PlanQueue::gradient_ready(int32_t layer) {
  is_collecting_ = true;
  for (const Share& share : shares_of_layer_[at(layer)]) {
    missing_bytes_[share.collective] -= share.bytes;
  }
}

void PlanQueue::finish(int32_t number) {
  if (number < first_number_) {
    return;  // of an earlier iteration, which is decided
  }
  for (const Share& share : shares_of_reduction_[at(number - first_number_)]) {
    missing_bytes_[share.collective] -= share.bytes;
  }
}

std::optional<PolicyCollective> PlanQueue::take() {
  if (next_ == plan_.size() || missing_bytes_[next_] > 0) {
    return std::nullopt;
  }
  const PolicyCollective one = plan_[next_];
  missing_bytes_[next_] = one.range.size();
  if (++next_ == plan_.size()) {
    begin_iteration();
  }
  return one;
}

void PlanQueue::begin_iteration() {
  first_number_ += count_of(plan_);
  next_ = 0;
  is_collecting_ = false;
  if (next_plan_.has_value()) {
    set(*std::exchange(next_plan_, std::nullopt));
  }
}

void PlanQueue::repeat() {
  first_number_ += static_cast<int32_t>(next_);
  next_ = 0;
  is_collecting_ = false;
  for (std::size_t index = 0; index < plan_.size(); ++index) {
    missing_bytes_[index] = plan_[index].range.size();
  }
}

void PlanQueue::replace(Plan plan) {
  if (is_collecting_) {
    next_plan_ = std::move(plan);
  } else {
    set(std::move(plan));
  }
}

}  // namespace pleach
