// Ranks of a TCP store that keep to no rule, for tests of what they cost the others.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/rendezvous/store_protocol.h"
#include "tests/support/stores.h"

namespace pleach::support {

// Comes as a rank of the job, and then does as it likes.
inline Descriptor pose_as(const Served& served, int32_t rank, int32_t rank_count) {
  Descriptor socket = std::move(start_connect({"127.0.0.1", served.port})).value();
  const TimePoint deadline = SteadyClock().now() + std::chrono::seconds(10);
  EXPECT_TRUE(wait_ready(socket.get(), POLLOUT, deadline));
  Introduction introduction(served.secret, {.purpose = Purpose::kStore,
                                            .rank = rank,
                                            .acceptor = 0,
                                            .rank_count = rank_count,
                                            .meeting = store_meeting(served.secret, "test")});
  EXPECT_EQ(introduce(socket.get(), introduction,
                      [&] { return wait_ready(socket.get(), POLLIN, deadline); }),
            Introduction::State::kWelcome);
  return socket;
}

// As much as the other end takes.
inline void say(const Descriptor& socket, std::string_view words) {
  const TimePoint deadline = SteadyClock().now() + std::chrono::seconds(5);
  while (!words.empty() && wait_ready(socket.get(), POLLOUT, deadline)) {
    const ssize_t count = send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    if (count <= 0) {
      return;
    }
    words.remove_prefix(static_cast<std::size_t>(count));
  }
}

// The next message that is no ping; pings are answered.
inline std::optional<StoreMessage> hear(const Descriptor& socket, StoreMessageReader& reader) {
  const TimePoint deadline = SteadyClock().now() + std::chrono::seconds(20);
  std::array<char, 65536> bytes;
  while (true) {
    Result<std::optional<StoreMessage>> message = reader.next();
    if (message && *message && (*message)->verb == StoreVerb::kPing) {
      say(socket, write_store_message({.verb = StoreVerb::kPong}));
    } else if (!message || *message) {
      return message ? std::move(message).value() : std::nullopt;
    } else if (wait_ready(socket.get(), POLLIN, deadline)) {
      const ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), 0);
      if (count <= 0) {
        return std::nullopt;
      }
      reader.append({bytes.data(), static_cast<std::size_t>(count)});
    } else {
      return std::nullopt;
    }
  }
}

inline int64_t resident_mib() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE) >> 20;
}

}  // namespace pleach::support
