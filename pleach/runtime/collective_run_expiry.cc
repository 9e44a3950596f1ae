// How long a run waits, and for whom.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/collective_run.h"

namespace pleach {
namespace {

constexpr Duration kAskAfter = std::chrono::seconds(1);

}  // namespace

Status CollectiveRun::check_expiry(TimePoint now) {
  if (now < expiry()) {
    return ok();
  }
  if (!life_.has_asked) {
    return ask_who_has_begun();
  }
  if (!life_.has_waited) {
    life_.has_waited = true;
    const std::vector<bool> needed = needed_peers();
    return std::ranges::find(needed, true) != needed.end() ? not_begun(needed) : ok();
  }
  const uint64_t moved = transport_->moved_bytes();
  if (moved == life_.moved_bytes) {
    return expired();
  }
  life_.moved_bytes = moved;  // A large segment is on its way.
  life_.last_event = now;
  return ok();
}

// Peers get the deadline to begin; they are asked whether they have after half of it, or a second:
// two that only receive, and run something else, hear of it then.
// After that a rank that sees nothing at all for the deadline gives up a little later still, so
// that who knows more speaks first.
TimePoint CollectiveRun::expiry() const {
  if (!life_.has_waited) {
    return life_.start +
           (life_.has_asked ? spec_->deadline : std::min<Duration>(spec_->deadline / 2, kAskAfter));
  }
  return life_.last_event + spec_->deadline + spec_->deadline / 4;
}

Status CollectiveRun::ask_who_has_begun() {
  life_.has_asked = true;
  for (std::size_t peer = 0; peer < is_told_.size(); ++peer) {
    if (!is_told_[peer]) {
      PLEACH_TRY(tell_begun(index_.peers()[peer]));
    }
  }
  return ok();
}

// Something must still go to the peer or come from there.
bool CollectiveRun::needs(Rank peer) const {
  for (int32_t receive = 0; receive < count_of(program_.receives); ++receive) {
    const ProgramMessage& message = program_.receives[at(receive)];
    for (int32_t segment = 0; message.peer == peer && segment < message.segment_count; ++segment) {
      if (!arrivals_[index(receive, segment)].has_arrived) {
        return true;
      }
    }
  }
  for (std::size_t target = 0; target < outgoing_.size(); ++target) {
    if (index_.targets()[target] == peer) {
      return (*sending_)[peer.index()] ||
             std::ranges::any_of(outgoing_[target].segments, [](const Outgoing::Segment& segment) {
               return !segment.is_admitted || (segment.is_lent && !segment.is_released);
             });
    }
  }
  return false;
}

// By peer: it has not begun, as far as this rank knows, and is needed.
std::vector<bool> CollectiveRun::needed_peers() const {
  std::vector<bool> needed(has_begun_.size());
  for (std::size_t peer = 0; peer < needed.size(); ++peer) {
    needed[peer] = !has_begun_[peer] && needs(index_.peers()[peer]);
  }
  return needed;
}

Error CollectiveRun::not_begun(const std::vector<bool>& needed) {
  std::string missing;
  Rank culprit;
  for (std::size_t peer = 0; peer < needed.size(); ++peer) {
    if (needed[peer]) {
      culprit = culprit.value < 0 ? index_.peers()[peer] : culprit;
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", index_.peers()[peer].value);
    }
  }
  return fail(ErrorCode::kTimeout, culprit,
              fmt::format("rank{} {} did not begin it within {:.3g} s",
                          std::ranges::count(needed, true) == 1 ? "" : "s", missing,
                          seconds_of(spec_->deadline)));
}

Error CollectiveRun::expired() {
  const double seconds = seconds_of(spec_->deadline);
  // The first segment in key order that has not arrived, else the first that has not left.
  std::optional<std::tuple<int64_t, int32_t, int32_t, Rank>> first;
  const auto consider = [&](const ProgramMessage& message, int32_t segment) {
    const int64_t key = int64_t{segment} * program_.period + message.step;
    const std::tuple candidate(key, segment, message.first_chunk, message.peer);
    first = first ? std::min(*first, candidate) : candidate;
  };
  for (int32_t receive = 0; receive < count_of(program_.receives); ++receive) {
    for (int32_t segment = 0; segment < program_.receives[at(receive)].segment_count; ++segment) {
      if (!arrivals_[index(receive, segment)].has_arrived) {
        consider(program_.receives[at(receive)], segment);
      }
    }
  }
  const bool is_arrival = first.has_value();
  for (std::size_t target = 0; target < outgoing_.size() && !is_arrival; ++target) {
    if (at(outgoing_[target].smallest) < index_.order(target).size()) {
      const auto [send, segment] = index_.order(target)[at(outgoing_[target].smallest)];
      consider(program_.sends[at(send)], segment);
    }
  }
  if (!first) {
    return Error{ErrorCode::kTimeout, "nothing happens and nothing is missing"};
  }
  const auto [key, segment, chunk, peer] = *first;
  return fail(ErrorCode::kTimeout, peer,
              fmt::format("waited {:.3g} s for rank {} to {} chunk {} of step {}, segment {}",
                          seconds, peer.value, is_arrival ? "send" : "take", chunk,
                          key - int64_t{segment} * program_.period, segment));
}

}  // namespace pleach
