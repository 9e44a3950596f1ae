#include "pleach/network/flow/shared_links.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pleach/base/units.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/job_checks.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {
namespace {

constexpr auto kPerSecond = static_cast<double>(kPicosecondsPerSecond);
constexpr double kRounding = 1e-13;  // of a transmission

std::vector<FairShares::Capacity> capacities_of(const Topology& topology) {
  std::vector<FairShares::Capacity> capacities;
  for (const Link& link : topology.links()) {
    const auto bytes_per_s = static_cast<double>(link.bandwidth_bytes_per_s);
    capacities.push_back({bytes_per_s, 0, link.source, link.target});
  }
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kSwitch)) {
    const double crowding = crowding_of(topology, node);
    for (const LinkId link : topology.links_out(node)) {
      capacities[link.index()].crowding = crowding;
    }
  }
  return capacities;
}

}  // namespace

SharedLinks::SharedLinks(const Topology& topology)
    : topology_(topology),
      users_(topology.links().size()),
      fair_(capacities_of(topology), {}),
      uses_(topology.links().size()) {}

void SharedLinks::add(std::span<const LinkId> links) {
  links_.push_back(links);
  shared_links_.push_back(0);
  fair_.add_flow(links);
}

void SharedLinks::attach(int32_t connection, std::vector<int32_t>& found) {
  for (const LinkId link : links_[at(connection)]) {
    Users& users = users_[link.index()];
    if (users.count == 1 && shared_links_[at(users.sum)]++ == 0) {
      found.push_back(users.sum);
    }
    shared_links_[at(connection)] += users.count > 0 ? 1 : 0;
    ++users.count;
    users.sum ^= connection;
  }
}

void SharedLinks::detach(int32_t connection) {
  for (const LinkId link : links_[at(connection)]) {
    Users& users = users_[link.index()];
    --users.count;
    users.sum ^= connection;
    shared_links_[at(connection)] -= users.count > 0 ? 1 : 0;
    if (users.count == 1) {
      --shared_links_[at(users.sum)];
    }
  }
}

void SharedLinks::use_links(int32_t connection, bool starts, int64_t now_ps) {
  for (const LinkId link : links_[at(connection)]) {
    Use& use = uses_[link.index()];
    if (starts && use.active++ == 0) {
      use.since_ps = now_ps;
    } else if (!starts && --use.active == 0) {
      use.busy_ps += now_ps - use.since_ps;
    }
  }
}

void SharedLinks::join(int32_t connection, int64_t wire_bytes, int64_t now_ps,
                       int32_t traffic_class) {
  if (transmissions_.size() < links_.size()) {
    transmissions_.resize(links_.size());
  }
  transmissions_[at(connection)] = {
      wire_bytes, {static_cast<double>(wire_bytes), kNoRate, now_ps}, {}};
  fair_.start(connection, traffic_class);
  use_links(connection, true, now_ps);
}

void SharedLinks::join_late(int32_t connection, int64_t wire_bytes, int64_t begin_ps,
                            int32_t traffic_class) {
  join(connection, wire_bytes, begin_ps, traffic_class);
  transmissions_[at(connection)].now.rate_bytes_per_s = full_rate(connection);
}

void SharedLinks::set_class(int32_t connection, int32_t traffic_class) {
  fair_.stop(connection);
  fair_.start(connection, traffic_class);
}

void SharedLinks::leave(int32_t connection, int64_t now_ps) {
  fair_.stop(connection);
  if (transmissions_[at(connection)].is_moving) {
    use_links(connection, false, now_ps);
  }
}

double SharedLinks::full_rate(int32_t connection) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const LinkId link : links_[at(connection)]) {
    least = std::min(least, topology_.link(link).bandwidth_bytes_per_s);
  }
  return static_cast<double>(least);
}

// A transmission that always had the full rate takes exactly what it takes on links of its own.
int64_t SharedLinks::end_ps(int32_t connection) const {
  const Transmission& one = transmissions_[at(connection)];
  if (one.now.rate_bytes_per_s == 0) {
    return kNever;
  }
  if (one.now.remaining_bytes == static_cast<double>(one.wire_bytes) &&
      one.now.rate_bytes_per_s == full_rate(connection)) {
    const auto rate_bytes_per_s = static_cast<int64_t>(one.now.rate_bytes_per_s);
    return add_times_ps(one.now.since_ps, transmit_time_ps(one.wire_bytes, rate_bytes_per_s));
  }
  // What floating point adds to a whole picosecond must not make the next one of it.
  const double dust_bytes = kRounding * static_cast<double>(one.wire_bytes);
  const double left_bytes = std::max(0.0, one.now.remaining_bytes - dust_bytes);
  const double left_ps = std::ceil(left_bytes / one.now.rate_bytes_per_s * kPerSecond);
  const bool ends = left_ps < static_cast<double>(kLongestPs);
  return add_times_ps(one.now.since_ps, ends ? static_cast<int64_t>(left_ps) : kLongestPs);
}

std::span<const SharedLinks::End> SharedLinks::update(int64_t now_ps) {
  ends_.clear();
  for (const auto& [flow, rate_bytes_per_s] : fair_.solve()) {
    auto& [wire_bytes, now, before, is_moving] = transmissions_[at(flow)];
    if (now.since_ps == now_ps && before.rate_bytes_per_s == rate_bytes_per_s) {
      now = before;
    } else if (now.since_ps < now_ps && now.rate_bytes_per_s != rate_bytes_per_s) {
      before = now;
      const double elapsed_s = static_cast<double>(now_ps - now.since_ps) / kPerSecond;
      now.remaining_bytes = std::max(0.0, now.remaining_bytes - now.rate_bytes_per_s * elapsed_s);
      now.since_ps = now_ps;
    }
    now.rate_bytes_per_s = rate_bytes_per_s;
    if (is_moving != (rate_bytes_per_s > 0)) {
      is_moving = rate_bytes_per_s > 0;
      use_links(flow, is_moving, now_ps);
      starved_ps_ += is_moving ? now_ps : -now_ps;
    }
    ends_.push_back({flow, end_ps(flow)});
  }
  return ends_;
}

void SharedLinks::add_busy(std::vector<LinkUse>& uses) const {
  for (std::size_t link = 0; link < uses.size(); ++link) {
    uses[link].busy_ps += uses_[link].busy_ps;
  }
}

}  // namespace pleach
