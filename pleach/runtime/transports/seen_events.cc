#include "pleach/runtime/transports/seen_events.h"

#include <algorithm>
#include <cerrno>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"

namespace pleach {

Status SeenEvents::look(int epoll, int milliseconds) {
  const int count =
      epoll_wait(epoll, events_.data(), static_cast<int>(events_.size()), milliseconds);
  if (count < 0 && errno != EINTR) {
    return system_error("epoll");
  }
  count_ = at(std::max(count, 0));
  return ok();
}

}  // namespace pleach
