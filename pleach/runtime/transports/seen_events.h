// SeenEvents: what an epoll has shown to who waits, until somebody acts on it.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "pleach/base/result.h"

namespace pleach {

class SeenEvents {
 public:
  // Waits up to so long, -1 for ever, and forgets what was seen before. A signal may end it sooner.
  // Errors: kIo
  Status look(int epoll, int milliseconds);
  bool has_some() const { return count_ > 0; }
  // Each is given once. Valid until the next look().
  std::span<const epoll_event> take() {
    return std::span(events_).first(std::exchange(count_, std::size_t{0}));
  }

 private:
  std::array<epoll_event, 64> events_ = {};
  std::size_t count_ = 0;
};

}  // namespace pleach
