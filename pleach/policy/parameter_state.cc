#include "pleach/policy/parameter_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

Error illegal(const PolicyCollective& what, std::string_view why) {
  return invalid(fmt::format("the policy started {} of bytes {} to {}, {}", to_text(what.kind),
                             what.range.begin, what.range.end, why));
}

}  // namespace

ParameterState::ParameterState(const TrainingProfile& profile, bool frees_parameters)
    : space_(profile), frees_parameters_(frees_parameters), layers_(profile.layers.size()) {
  const ByteRange all{0, space_.total_bytes()};
  reduction_.begun.add(all);
  reduction_.done.add(all);
  if (!frees_parameters) {
    gather_.begun.add(all);
    gather_.done.add(all);
  }
}

template <typename Predicate>
int32_t ParameterState::find_layer(ByteRange range, Predicate holds) const {
  for (int32_t layer = space_.layer_of(range.begin);
       layer < space_.layer_count() && space_.layer(layer).begin < range.end; ++layer) {
    if (space_.layer(layer).size() > 0 && holds(layers_[at(layer)])) {
      return layer;
    }
  }
  return -1;
}

void ParameterState::gradient_ready(int32_t layer, int64_t now_ps) {
  const ByteRange range = space_.layer(layer);
  PLEACH_CHECK(gather_.done.covers(range), "a gradient of parameters that were not there");
  for (Phase* phase : {&reduction_, &gather_, &regather_}) {
    phase->begun.remove(range);
    phase->done.remove(range);
  }
  owned_.remove(range);
  Layer& one = layers_[at(layer)];
  one = {.gradients_ps = now_ps, .gradients = one.gradients + 1};
}

void ParameterState::forward_finished(int32_t layer) {
  layers_[at(layer)].forward_done = true;
}

Status ParameterState::check_range(const PolicyCollective& what) const {
  const ByteRange range = what.range;
  if (range.begin < 0 || range.size() <= 0 || range.end > space_.total_bytes()) {
    return illegal(what, fmt::format("of a model of {} bytes", space_.total_bytes()));
  }
  for (const int64_t byte : {range.begin, range.end}) {
    if (space_.atom_at(byte) < 0) {
      return illegal(what, fmt::format("which cuts an atom at byte {}", byte));
    }
  }
  return ok();
}

Status ParameterState::start(const PolicyCollective& what) {
  PLEACH_TRY(check_range(what));
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kReduce:
      PLEACH_TRY(check_reduction(what));
      reduction_.begun.add(what.range);
      if (what.kind == CollectiveKind::kReduce) {
        owned_.add(what.range);
      }
      return ok();
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      PLEACH_TRY(check_gather(what));
      (gather_.begun.meets(what.range) ? regather_ : gather_).begun.add(what.range);
      return ok();
    default:
      return illegal(what, "which no policy may");
  }
}

Status ParameterState::check_reduction(const PolicyCollective& what) const {
  if (reduction_.begun.meets(what.range)) {
    return illegal(what, "some of which is reduced already, or not computed yet");
  }
  const int32_t missing =
      find_layer(what.range, [](const Layer& layer) { return layer.gradients_ps < 0; });
  if (missing >= 0) {
    return illegal(what, fmt::format("but layer {} has no gradients yet", missing));
  }
  return ok();
}

Status ParameterState::check_gather(const PolicyCollective& what) const {
  if (!reduction_.done.covers(what.range)) {
    return illegal(what, "some of which is not reduced yet");
  }
  if (what.kind == CollectiveKind::kAllGather ? owned_.meets(what.range)
                                              : !owned_.covers(what.range)) {
    return illegal(what, what.kind == CollectiveKind::kAllGather
                             ? "some of which is reduced to an owner"
                             : "some of which no owner has");
  }
  if (!gather_.begun.meets(what.range)) {
    return ok();
  }
  if (!frees_parameters_ || regather_.begun.meets(what.range) || !gather_.done.covers(what.range)) {
    return illegal(what, "some of which is gathered already");
  }
  const int32_t holding =
      find_layer(what.range, [](const Layer& layer) { return !layer.forward_done; });
  if (holding >= 0) {
    return illegal(what, fmt::format("but layer {} still holds them for forward", holding));
  }
  return ok();
}

void ParameterState::finish(const PolicyCollective& what) {
  if (!reduces(what.kind)) {
    (gather_.done.covers(what.range) ? regather_ : gather_).done.add(what.range);
    return;
  }
  reduction_.done.add(what.range);
  if (what.kind == CollectiveKind::kAllReduce) {
    gather_.begun.add(what.range);
    gather_.done.add(what.range);
  }
}

void ParameterState::repeat() {
  PLEACH_CHECK(!frees_parameters_, "freed parameters are not there to repeat with");
  for (int32_t layer = 0; layer < space_.layer_count(); ++layer) {
    layers_[at(layer)].gradients -= gather_.done.covers(space_.layer(layer)) ? 0 : 1;
  }
  const ByteRange all{0, space_.total_bytes()};
  for (Phase* phase : {&reduction_, &gather_}) {
    phase->begun.add(all);
    phase->done.add(all);
  }
}

int64_t ParameterState::gradients_ps(ByteRange range) const {
  int64_t last_ps = -1;
  find_layer(range, [&](const Layer& layer) {
    last_ps = std::max(last_ps, layer.gradients_ps);
    return false;
  });
  return last_ps;
}

}  // namespace pleach
