#include "pleach/network/flow/shared_links.h"

#include <algorithm>
#include <cmath>

#include "pleach/base/units.h"
#include "pleach/network/prepare.h"

namespace pleach {
namespace {

std::vector<double> capacities_of(const Topology& topology) {
  std::vector<double> capacities;
  for (const Link& link : topology.links()) {
    capacities.push_back(static_cast<double>(link.bandwidth_bytes_per_s));
  }
  return capacities;
}

}  // namespace

SharedLinks::SharedLinks(const Topology& topology,
                         std::vector<std::span<const LinkId>> connection_links)
    : links_(std::move(connection_links)),
      shares_(links_.size()),
      fair_(capacities_of(topology), links_),
      uses_(topology.links().size()) {
  std::vector<int32_t> users(topology.links().size());
  for (const auto& links : links_) {
    for (const LinkId link : links) {
      ++users[link.index()];
    }
  }
  for (std::size_t connection = 0; connection < links_.size(); ++connection) {
    shares_[connection] = std::any_of(links_[connection].begin(), links_[connection].end(),
                                      [&](LinkId link) { return users[link.index()] > 1; });
  }
  if (std::find(shares_.begin(), shares_.end(), 1) != shares_.end()) {
    transmissions_.resize(links_.size());
  }
}

void SharedLinks::join(int32_t connection, int64_t wire_bytes, int64_t now_ps) {
  const auto index = static_cast<std::size_t>(connection);
  transmissions_[index] = {static_cast<double>(wire_bytes), 0, now_ps};
  fair_.start(connection);
  for (const LinkId link : links_[index]) {
    Use& use = uses_[link.index()];
    if (use.active++ == 0) {
      use.since_ps = now_ps;
    }
  }
}

void SharedLinks::leave(int32_t connection, int64_t now_ps) {
  fair_.stop(connection);
  for (const LinkId link : links_[static_cast<std::size_t>(connection)]) {
    Use& use = uses_[link.index()];
    if (--use.active == 0) {
      use.busy_ps += now_ps - use.since_ps;
    }
  }
}

std::span<const SharedLinks::End> SharedLinks::update(int64_t now_ps) {
  ends_.clear();
  constexpr auto kPerSecond = static_cast<double>(kPicosecondsPerSecond);
  for (const auto& [flow, rate_bytes_per_s] : fair_.solve()) {
    Transmission& one = transmissions_[static_cast<std::size_t>(flow)];
    const double elapsed_s = static_cast<double>(now_ps - one.since_ps) / kPerSecond;
    one.remaining_bytes = std::max(0.0, one.remaining_bytes - one.rate_bytes_per_s * elapsed_s);
    one.rate_bytes_per_s = rate_bytes_per_s;
    one.since_ps = now_ps;
    const double left_ps = std::ceil(one.remaining_bytes / rate_bytes_per_s * kPerSecond);
    const bool ends = left_ps < static_cast<double>(kLongestPs);
    ends_.push_back(
        {flow, add_times_ps(now_ps, ends ? static_cast<int64_t>(left_ps) : kLongestPs)});
  }
  return ends_;
}

void SharedLinks::add_busy(std::vector<LinkUse>& uses) const {
  for (std::size_t link = 0; link < uses.size(); ++link) {
    uses[link].busy_ps += uses_[link].busy_ps;
  }
}

}  // namespace pleach
