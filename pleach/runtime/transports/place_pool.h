// PlacePool: the landing places of a transport's channels, for those that copy what arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/closed_channels.h"

namespace pleach {

// Used by one thread. Memory for a peer's places is there from the first use of one on, and does
// not move while the channel is open.
class PlacePool {
 public:
  explicit PlacePool(int32_t rank_count) : rank_count_(rank_count) {}

  void open(const ChannelOptions& channel);
  void close(uint64_t channel);
  bool is_open(uint64_t channel) const { return find(channel) != nullptr; }
  bool was_open(uint64_t channel) const { return closed_.contains(channel); }
  // Of one peer; 0: the channel is not open.
  int32_t places(uint64_t channel) const;

  // A free place for a peer's segment, now taken. Empty: the channel is not open, it has no free
  // place for the peer, or the segment is too large.
  std::optional<int32_t> take(uint64_t channel, Rank peer, std::size_t bytes);
  // Of a place that is taken.
  std::span<std::byte> memory(uint64_t channel, Rank peer, int32_t place, std::size_t bytes);
  void release(uint64_t channel, Rank peer, int32_t place);

 private:
  struct OfPeer {
    std::unique_ptr<std::byte[]> memory;
    std::vector<int32_t> free;  // the last is next
  };
  struct Channel {
    ChannelOptions options;
    std::vector<OfPeer> peers;  // by rank
  };
  const Channel* find(uint64_t channel) const;
  Channel* find(uint64_t channel);

  int32_t rank_count_;
  std::vector<Channel> channels_;
  ClosedChannels closed_;
};

}  // namespace pleach
