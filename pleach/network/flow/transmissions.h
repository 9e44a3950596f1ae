// Transmissions: what is on the links of the flow model, and how fast it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/network/flow/flow_events.h"
#include "pleach/network/flow/shared_links.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// A transmission occupies its connection for the source's overhead and then for its bytes at the
// connection's rate: the bottleneck's bandwidth where its links are its own, else its share among
// those of its class of what lower ones leave, max-min fair. Its end is pushed as a kSent event;
// where shares change, again, with another generation. A connection is a number from 0. Times never
// go back.
class Transmissions {
 public:
  // Borrows both.
  Transmissions(const Topology& topology, FlowEvents& events);

  // The next connection number is this one, which must outlive this. Not attached yet.
  void add(const LoweredConnection& connection);
  std::size_t count() const { return connections_.size(); }
  // From now on the connections [first, first + count) may transmit, in a class of traffic / do no
  // more. A transmission of another that had its links for itself until now is from here on one of
  // the shared ones.
  void attach(int32_t first, int32_t count, int64_t now_ps, int32_t traffic_class = 0);
  void detach(int32_t first, int32_t count);

  bool is_busy(int32_t connection) const { return connections_[at(connection)].is_busy; }
  int64_t latency_ps(int32_t connection) const { return connections_[at(connection)].latency_ps; }
  // The connection will soon be asked or told something.
  void prefetch(int32_t connection) const { __builtin_prefetch(&connections_[at(connection)], 1); }
  // An attached, idle connection begins, so much later.
  void begin(int32_t connection, int64_t wire_bytes, int64_t now_ps, int64_t delay_ps = 0);
  // A kFlowBegin event: the first byte leaves.
  void flow(int32_t connection, int64_t now_ps);
  // A busy one stands still from now on, or goes on.
  void suspend(int32_t connection, bool stands_still, int64_t now_ps);
  bool is_suspended(int32_t connection) const { return connections_[at(connection)].is_suspended; }
  // A kSent event: whether it is the end of what is going on, which is then over.
  bool end(int32_t connection, uint32_t generation, int64_t now_ps);
  // When everything of one time has been told: pushes the ends that are new.
  void update(int64_t now_ps);

  // By LinkId, of everything since the start.
  std::vector<LinkUse> use() const;
  int64_t starved_ps() const { return shared_.starved_ps(); }
  // How long one largest send takes on the job's slowest connection, with its overhead.
  int64_t slowest_ps(const LoweredJob& job) const;

 private:
  struct Connection {
    const LoweredConnection* lowered = nullptr;
    int64_t latency_ps = 0;
    int64_t overhead_ps = 0;
    int64_t numerator = 0;  // picoseconds per byte = numerator / denominator at the full rate
    int64_t denominator = 1;
    int64_t busy_ps = 0;
    int64_t sent_bytes = 0;
    int64_t begin_ps = 0;  // when the first byte of the transmission leaves
    int64_t wire_bytes = 0;
    uint32_t generation = 0;  // of the pending end
    int32_t traffic_class = 0;
    bool is_busy = false;
    bool is_shared = false;   // takes part in SharedLinks, or will once it begins
    bool is_flowing = false;  // takes part in them now
    bool is_suspended = false;
  };
  int64_t full_rate_ps(const Connection& connection) const;
  int64_t bottleneck(std::span<const LinkId> links) const;
  void share(int32_t number, int64_t now_ps);
  int32_t class_of(const Connection& connection) const {
    return connection.is_suspended ? SharedLinks::kSuspended : connection.traffic_class;
  }

  const Topology& topology_;
  FlowEvents& events_;
  SharedLinks shared_;
  std::vector<Connection> connections_;
};

}  // namespace pleach
