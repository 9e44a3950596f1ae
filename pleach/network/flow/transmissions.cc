#include "pleach/network/flow/transmissions.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "pleach/base/units.h"

namespace pleach {

using Kind = FlowEvent::Kind;

Transmissions::Transmissions(const Topology& topology, FlowEvents& events)
    : topology_(topology), events_(events), shared_(topology) {}

int64_t Transmissions::bottleneck(std::span<const LinkId> links) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const LinkId link : links) {
    least = std::min(least, topology_.link(link).bandwidth_bytes_per_s);
  }
  return least;
}

void Transmissions::add(const LoweredConnection& lowered) {
  const int64_t bandwidth = bottleneck(lowered.links);
  const int64_t common = std::gcd(kPicosecondsPerSecond, bandwidth);
  connections_.push_back({.lowered = &lowered,
                          .latency_ps = lowered.latency_ps,
                          .overhead_ps = lowered.overhead_ps,
                          .numerator = kPicosecondsPerSecond / common,
                          .denominator = bandwidth / common});
  shared_.add(lowered.links);
}

void Transmissions::attach(int32_t first, int32_t count, int64_t now_ps, int32_t traffic_class) {
  std::vector<int32_t> found;
  for (int32_t number = first; number < first + count; ++number) {
    connections_[at(number)].traffic_class = traffic_class;
    shared_.attach(number, found);
  }
  for (const int32_t number : found) {
    share(number, now_ps);
  }
}

// The connection no longer has its links for itself.
void Transmissions::share(int32_t number, int64_t now_ps) {
  Connection& connection = connections_[at(number)];
  const int64_t bytes = connection.is_busy ? connection.wire_bytes : 0;
  if (bytes == 0 || connection.is_shared) {
    return;
  }
  connection.is_shared = true;
  connection.busy_ps -= full_rate_ps(connection);
  ++connection.generation;  // the end that was planned is none
  if (connection.begin_ps > now_ps) {
    events_.push(connection.begin_ps, Kind::kFlowBegin, number);
  } else if (connection.begin_ps == now_ps) {
    flow(number, now_ps);
  } else {
    connection.is_flowing = true;
    shared_.join_late(number, bytes, connection.begin_ps, class_of(connection));
  }
}

void Transmissions::detach(int32_t first, int32_t count) {
  for (int32_t number = first; number < first + count; ++number) {
    shared_.detach(number);
  }
}

int64_t Transmissions::full_rate_ps(const Connection& connection) const {
  const int64_t bytes = connection.wire_bytes;
  const int64_t most = std::numeric_limits<int64_t>::max() - connection.denominator;
  const bool fits = bytes <= most / connection.numerator;
  return fits ? (bytes * connection.numerator + connection.denominator - 1) / connection.denominator
              : transmit_time_ps(bytes, bottleneck(connection.lowered->links));
}

void Transmissions::begin(int32_t number, int64_t wire_bytes, int64_t now_ps, int64_t delay_ps) {
  Connection& connection = connections_[at(number)];
  connection.is_busy = true;
  connection.is_suspended = false;
  connection.wire_bytes = wire_bytes;
  connection.sent_bytes += wire_bytes;
  connection.begin_ps = add_times_ps(add_times_ps(now_ps, delay_ps), connection.overhead_ps);
  connection.is_shared = wire_bytes > 0 && shared_.shares(number);
  if (!connection.is_shared) {
    const int64_t transmission_ps = full_rate_ps(connection);
    connection.busy_ps = add_times_ps(connection.busy_ps, transmission_ps);
    events_.push(add_times_ps(connection.begin_ps, transmission_ps), Kind::kSent, number,
                 connection.generation);
  } else if (connection.begin_ps > now_ps) {
    events_.push(connection.begin_ps, Kind::kFlowBegin, number);
  } else {
    flow(number, now_ps);
  }
}

void Transmissions::flow(int32_t number, int64_t now_ps) {
  Connection& connection = connections_[at(number)];
  connection.is_flowing = true;
  shared_.join(number, connection.wire_bytes, now_ps, class_of(connection));
}

void Transmissions::suspend(int32_t number, bool stands_still, int64_t now_ps) {
  share(number, now_ps);
  Connection& connection = connections_[at(number)];
  connection.is_suspended = stands_still;
  if (connection.is_flowing) {
    shared_.set_class(number, class_of(connection));
  }
}

bool Transmissions::end(int32_t number, uint32_t generation, int64_t now_ps) {
  Connection& connection = connections_[at(number)];
  if ((connection.generation & FlowEvents::kGenerationMask) != generation) {
    return false;
  }
  connection.is_busy = false;
  ++connection.generation;
  if (connection.is_shared) {
    shared_.leave(number, now_ps);
  }
  connection.is_flowing = false;
  return true;
}

void Transmissions::update(int64_t now_ps) {
  for (const auto& [number, end_ps] : shared_.update(now_ps)) {
    const uint32_t generation = ++connections_[at(number)].generation;
    if (end_ps != SharedLinks::kNever) {
      events_.push(end_ps, Kind::kSent, number, generation);
    }
  }
}

std::vector<LinkUse> Transmissions::use() const {
  std::vector<LinkUse> uses(topology_.links().size());
  for (const Connection& connection : connections_) {
    for (const LinkId link : connection.lowered->links) {
      uses[link.index()].wire_bytes += connection.sent_bytes;
      uses[link.index()].busy_ps += connection.busy_ps;
    }
  }
  shared_.add_busy(uses);
  return uses;
}

int64_t Transmissions::slowest_ps(const LoweredJob& job) const {
  int64_t slowest_ps = 0;
  const int64_t bytes = job.largest_wire_bytes();
  for (const LoweredConnection& connection : job.schedule().connections()) {
    const int64_t transmission_ps = transmit_time_ps(bytes, bottleneck(connection.links));
    slowest_ps = std::max(slowest_ps, add_times_ps(transmission_ps, connection.overhead_ps));
  }
  return slowest_ps;
}

}  // namespace pleach
