// A program of its own that comes to a rank's door, for tests of who gets in.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/transport.h"

namespace pleach::support {

// Proves to the rank whose transport it is that it is of the job; moves that transport meanwhile.
//   returns  what happened there
inline std::vector<TransportEvent> be_let_in(Transport& door, int socket, const JobSecret& secret,
                                             const Claim& claim) {
  const TimePoint deadline = SteadyClock().now() + std::chrono::seconds(10);
  Introduction introduction(secret, claim);
  Introduction::State state = introduction.advance(socket);
  std::vector<TransportEvent> events;
  while (state == Introduction::State::kWaits && SteadyClock().now() < deadline) {
    EXPECT_TRUE(door.wait(SteadyClock().now() + std::chrono::milliseconds(1), true));
    EXPECT_TRUE(door.progress(events));
    state = introduction.advance(socket);
  }
  EXPECT_EQ(state, Introduction::State::kWelcome);
  return events;
}

}  // namespace pleach::support
