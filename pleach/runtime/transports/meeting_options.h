// How a transport's rank meets its peers.
#pragma once

#include <cstdint>

#include "pleach/runtime/rendezvous/meeting.h"
#include "pleach/runtime/transport.h"

namespace pleach {

//   nonce  of its listener
inline Meeting::Options meeting_options(const TransportContext& context, Purpose purpose,
                                        uint64_t nonce, int epoll) {
  return {.purpose = purpose,
          .rank = context.rank,
          .rank_count = context.rank_count,
          .secret = context.store->secret(),
          .nonce = nonce,
          .epoll = epoll,
          .clock = context.clock,
          .deadline = context.deadline};
}

}  // namespace pleach
