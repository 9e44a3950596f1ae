#include "pleach/policy/wire.h"

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {

void Wire::issue(HostedCollective one) {
  one.number = next_number_++;
  waiting_.push_back(one);
}

std::span<const HostedCollective> Wire::start_waiting(int64_t now_ps) {
  const std::size_t before = log_.size();
  while (!waiting_.empty() && count_of(carried_) < width_) {
    log_.push_back(waiting_.front());
    waiting_.pop_front();
    log_.back().started_ps = now_ps;
    carried_.push_back({log_.back().number, stood_still_ps(now_ps)});
  }
  return log().subspan(before);
}

const HostedCollective* Wire::find(int32_t number) const {
  const bool is_logged =
      !log_.empty() && number >= log_.front().number && number <= log_.back().number;
  return is_logged ? &log_[at(number - log_.front().number)] : nullptr;
}

const HostedCollective& Wire::carried(int32_t number) const {
  PLEACH_CHECK(std::ranges::count(carried_, number, &Carried::number) == 1,
               "no such collective is on the wire");
  return log_[at(number - log_.front().number)];
}

const HostedCollective& Wire::finish(int32_t number, int64_t now_ps) {
  const auto carried = std::ranges::find(carried_, number, &Carried::number);
  PLEACH_CHECK(carried != carried_.end(), "no such collective is on the wire");
  HostedCollective& done = log_[at(number - log_.front().number)];
  done.finished_ps = now_ps;
  done.exposed_ps = stood_still_ps(now_ps) - carried->stood_still_ps;
  carried_.erase(carried);
  return done;
}

const HostedCollective& Wire::update(int32_t number, int64_t now_ps) {
  const HostedCollective* known = find(number);
  PLEACH_CHECK(known != nullptr && known->finished_ps >= 0, "no such collective has finished");
  HostedCollective& one = log_[at(number - log_.front().number)];
  one.updated_ps = now_ps;
  return one;
}

void Wire::drop_reductions() {
  for (HostedCollective& one : log_) {
    if (one.updated_ps < 0) {
      one.updated_ps = one.finished_ps;
    }
  }
}

void Wire::stand_still(int64_t now_ps) {
  if (still_since_ps_ < 0) {
    still_since_ps_ = now_ps;
  }
}

void Wire::go_on(int64_t now_ps) {
  stood_still_ps_ = stood_still_ps(now_ps);
  still_since_ps_ = -1;
}

int64_t Wire::reduced_ps(ByteRange range) const {
  int64_t reduced_ps = 0;
  int64_t missing_bytes = range.size();
  for (auto one = log_.rbegin(); one != log_.rend() && missing_bytes > 0; ++one) {
    const int64_t shared_bytes =
        std::min(one->what.range.end, range.end) - std::max(one->what.range.begin, range.begin);
    if (reduces(one->what.kind) && shared_bytes > 0) {
      reduced_ps = std::max(reduced_ps, one->updated_ps);
      missing_bytes -= shared_bytes;
    }
  }
  return reduced_ps;
}

void Wire::forget_before(int32_t iteration) {
  const auto kept = std::ranges::find_if(log_, [&](const HostedCollective& one) {
    return one.iteration >= iteration || one.finished_ps < 0 ||
           (reduces(one.what.kind) && one.updated_ps < 0);
  });
  log_.erase(log_.begin(), kept);
}

}  // namespace pleach
