// SharedLinks: transmissions on links that several connections use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flow/fair_shares.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Knows which connections share links now and how far each of their transmissions is. Times never
// go back. A connection is a number from 0; it counts while it is attached.
class SharedLinks {
 public:
  struct End {
    int32_t connection;
    int64_t time_ps;  // when its transmission ends if nothing changes, or kNever
  };

  static constexpr int64_t kNever = INT64_MAX;  // higher classes leave it nothing

  explicit SharedLinks(const Topology& topology);

  // The next connection number gets these links, which must outlive this. Not attached yet.
  void add(std::span<const LinkId> links);
  // From now on the connection may transmit; appends to `found` those that were alone on all their
  // links and no longer are.
  void attach(int32_t connection, std::vector<int32_t>& found);
  void detach(int32_t connection);
  // Whether some link of the attached connection belongs to another one too.
  bool shares(int32_t connection) const { return shared_links_[at(connection)] > 0; }
  // An attached connection starts / ends the transmission of so many bytes.
  void join(int32_t connection, int64_t wire_bytes, int64_t now_ps, int32_t traffic_class = 0);
  void leave(int32_t connection, int64_t now_ps);
  // From now on it is of this class; in kSuspended it stands still.
  void set_class(int32_t connection, int32_t traffic_class);
  static constexpr int32_t kSuspended = FairShares::kSuspended;
  // Likewise join, for a transmission that began in the past and had its links for itself until
  // now.
  void join_late(int32_t connection, int64_t wire_bytes, int64_t begin_ps,
                 int32_t traffic_class = 0);
  // New ends of the transmissions whose rate has changed.
  std::span<const End> update(int64_t now_ps);
  // Adds the busy times of shared transmissions to `uses` (by LinkId).
  void add_busy(std::vector<LinkUse>& uses) const;
  // How long transmissions stood still for higher classes, summed, once none is under way [ps].
  int64_t starved_ps() const { return starved_ps_; }

 private:
  static constexpr double kNoRate = -1;  // has just joined
  struct Stretch {                       // of one rate
    double remaining_bytes = 0;          // at its start
    double rate_bytes_per_s = kNoRate;
    int64_t since_ps = 0;
  };
  struct Transmission {
    int64_t wire_bytes = 0;
    Stretch now;
    // A rate that goes and comes back within an instant leaves no trace: results must not depend
    // on how many decisions are taken in it.
    Stretch before;
    bool is_moving = true;  // it uses its links
  };
  struct Use {
    int32_t active = 0;
    int64_t since_ps = 0;
    int64_t busy_ps = 0;
  };
  struct Users {  // connections attached to a link
    int32_t count = 0;
    int32_t sum = 0;  // exclusive or of their numbers: the only one's number when it is alone
  };
  void use_links(int32_t connection, bool starts, int64_t now_ps);
  double full_rate(int32_t connection) const;
  int64_t end_ps(int32_t connection) const;

  const Topology& topology_;
  std::vector<std::span<const LinkId>> links_;  // by connection
  std::vector<int32_t> shared_links_;           // by connection: how many of its links are shared
  std::vector<Users> users_;                    // by link
  FairShares fair_;
  std::vector<Transmission> transmissions_;  // by connection, as far as some take part
  std::vector<Use> uses_;                    // by link
  int64_t starved_ps_ = 0;
  std::vector<End> ends_;
};

}  // namespace pleach
