// SharedLinks: transmissions on links that several connections use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/network/flow/fair_shares.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Knows which connections share links and how far each of their transmissions is. Times never go
// back. A connection is a number; its links are given at construction.
class SharedLinks {
 public:
  struct End {
    int32_t connection;
    int64_t time_ps;  // when its transmission ends if nothing changes
  };

  SharedLinks(const Topology& topology, std::vector<std::span<const LinkId>> connection_links);

  // Whether some link of the connection belongs to another one too.
  bool shares(int32_t connection) const { return shares_[static_cast<std::size_t>(connection)]; }
  // A sharing connection starts / ends the transmission of so many bytes.
  void join(int32_t connection, int64_t wire_bytes, int64_t now_ps);
  void leave(int32_t connection, int64_t now_ps);
  // New ends of the transmissions whose rate has changed.
  std::span<const End> update(int64_t now_ps);
  // Adds the busy times of shared transmissions to `uses` (by LinkId).
  void add_busy(std::vector<LinkUse>& uses) const;

 private:
  struct Transmission {
    double remaining_bytes = 0;
    double rate_bytes_per_s = 0;
    int64_t since_ps = 0;
  };
  struct Use {
    int32_t active = 0;
    int64_t since_ps = 0;
    int64_t busy_ps = 0;
  };

  std::vector<std::span<const LinkId>> links_;
  std::vector<char> shares_;
  FairShares fair_;
  std::vector<Transmission> transmissions_;  // by connection
  std::vector<Use> uses_;                    // by link
  std::vector<End> ends_;
};

}  // namespace pleach
