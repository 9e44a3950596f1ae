// PacketShape: what packets and the buffers for them are like.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pleach/topology/topology.h"

namespace pleach {

struct PacketShape {
  int64_t payload_bytes = 4096;   // at most
  int64_t header_bytes = 6;       // with the index of the configuration
  int64_t flit_bytes = 512;       // that are there before a packet goes on
  int64_t buffer_bytes = 24'576;  // of a virtual channel of a port of this rate
  int64_t port_bytes_per_s = 600'000'000'000;
  int32_t vcs = 3;
  struct {
    int64_t payload_bytes = 512;
    int64_t buffer_bytes = 2048;  // of the virtual channel of control packets
  } control = {};
  struct {
    int64_t ack_every = 16;        // packets that came over a link; 0: no acknowledgements
    int64_t lost_per_million = 0;  // of the packets that pass a link
    int64_t timeout_ps = 0;        // without progress; 0: by the stream's round trip
    uint64_t seed = 1;             // of what is lost
  } go_back_n = {};

  // Of a virtual channel behind a link, each for a packet. Every lane of a link is a port of its
  // own, and one that is faster than a port stands for as many as make up its rate.
  int32_t places(const Link& link) const { return places(link, buffer_bytes / payload_bytes); }
  // Of that of control packets.
  int32_t control_places(const Link& link) const {
    return places(link, control.buffer_bytes / std::max<int64_t>(1, control.payload_bytes));
  }

 private:
  int32_t places(const Link& link, int64_t of_a_port) const {
    const int64_t lane_bytes_per_s = (link.bandwidth_bytes_per_s + link.lanes - 1) / link.lanes;
    const int64_t ports = (lane_bytes_per_s + port_bytes_per_s - 1) / port_bytes_per_s;
    const __int128 places = __int128{ports} * link.lanes * of_a_port;
    return static_cast<int32_t>(std::clamp<__int128>(places, 1, INT32_MAX));
  }
};

}  // namespace pleach
