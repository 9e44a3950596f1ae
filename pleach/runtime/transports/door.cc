#include "pleach/runtime/transports/door.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr Duration kHelloTime = std::chrono::seconds(10);
// Besides one for every rank.
constexpr std::size_t kMostStrangers = 256;

}  // namespace

Status Door::open(Options options, std::function<void(Guest)> enter) {
  options_ = std::move(options);
  enter_ = std::move(enter);
  return watch(options_.epoll, options_.listener.get(), EPOLLIN, kFirstTag);
}

void Door::handle(uint64_t tag) {
  tag == kFirstTag ? accept_all() : hear(tag);
}

void Door::accept_all() {
  const std::size_t most = at(options_.rank_count) + kMostStrangers;
  while (true) {
    Stranger stranger{
        {accept_one(options_.listener.get()), std::vector<std::byte>(options_.hello_bytes), {}},
        options_.clock->now() + kHelloTime};
    if (!stranger.guest.socket.is_open()) {
      return;
    }
    const uint64_t tag = next_tag_++;
    if (watch(options_.epoll, stranger.guest.socket.get(), EPOLLIN, tag)) {
      strangers_.emplace(tag, std::move(stranger));
    }
    if (strangers_.size() > most) {
      show_out_oldest();
    }
  }
}

void Door::hear(uint64_t tag) {
  const auto found = strangers_.find(tag);
  if (found == strangers_.end()) {
    return;
  }
  Stranger& stranger = found->second;
  const ssize_t count = receive_with_descriptors(
      stranger.guest.socket.get(), std::span(stranger.guest.hello).subspan(stranger.received),
      stranger.guest.brought);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  stranger.received += count > 0 ? at(count) : 0;
  if (count > 0 && stranger.received < stranger.guest.hello.size()) {
    return;
  }
  Guest guest = std::move(stranger.guest);
  strangers_.erase(found);
  if (count > 0) {
    enter_(std::move(guest));
  }
}

// Its hello may be here, unread.
void Door::show_out_oldest() {
  const uint64_t oldest = strangers_.begin()->first;
  hear(oldest);
  strangers_.erase(oldest);
}

TimePoint Door::expiry() const {
  return strangers_.empty() ? TimePoint::max() : strangers_.begin()->second.expiry;
}

void Door::show_out(TimePoint now) {
  while (!strangers_.empty() && strangers_.begin()->second.expiry <= now) {
    show_out_oldest();
  }
}

}  // namespace pleach
