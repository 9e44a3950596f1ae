#include "pleach/runtime/rendezvous/door.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// For a claim, and again for a proof, however the bytes trickle in.
constexpr Duration kHelloTime = std::chrono::seconds(10);
// Besides one for every rank.
constexpr std::size_t kMostStrangers = 256;
// Before those who are in have their turn.
constexpr int kMostAccepts = 64;
// Without descriptors it tries again after so long, and gives up after so long.
constexpr Duration kRest = std::chrono::milliseconds(50);
constexpr Duration kLongestRest = std::chrono::seconds(2);

bool is_readable(int socket) {
  pollfd one = {.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&one, 1, 0) == 1;
}

}  // namespace

Status Door::open(Options options, Enter enter, Refuse refuse) {
  options_ = std::move(options);
  enter_ = std::move(enter);
  refuse_ = std::move(refuse);
  return also_listen(std::move(options_.listener));
}

Status Door::also_listen(Descriptor listener) {
  listeners_.push_back(std::move(listener));
  return watch(options_.epoll, listeners_.back().get(), EPOLLIN, kFirstTag);
}

void Door::handle(uint64_t tag) {
  if (tag != kFirstTag) {
    return hear(tag);
  }
  for (const Descriptor& listener : listeners_) {
    if (!accept_some(listener.get())) {
      return;  // none of them is watched until it tries again
    }
  }
  rest_ = {};
}

bool Door::accept_some(int listener) {
  const std::size_t most = at(options_.rank_count) + kMostStrangers;
  for (int accepts = 0; accepts < kMostAccepts; ++accepts) {
    // Without descriptors accept() fails also where no connection waits.
    if (rest_.since != TimePoint::max() && !is_readable(listener)) {
      return true;
    }
    Descriptor socket = accept_one(listener);
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EAGAIN) {
        return true;
      }
      if (is_out_of_descriptors(error) && !makes_room(error)) {
        return false;
      }
      continue;  // else it has gone already
    }
    rest_ = {};
    set_no_delay(socket.get());
    queue({.socket = std::move(socket), .expiry = options_.clock->now() + kHelloTime});
    while (strangers_.size() > most) {
      show_out_oldest();
    }
  }
  return true;
}

// False: there is none to be made, and who comes has to wait.
bool Door::makes_room(int error) {
  const TimePoint now = options_.clock->now();
  rest_.since = std::min(rest_.since, now);
  if (!strangers_.empty()) {
    show_out_oldest();
    return true;
  }
  for (const Descriptor& listener : listeners_) {
    unwatch(options_.epoll, listener.get());
  }
  rest_.until = now + kRest;
  rest_.error = error;
  return false;
}

void Door::queue(Stranger stranger) {
  const uint64_t tag = next_tag_++;
  if (watch(options_.epoll, stranger.socket.get(), EPOLLIN, tag)) {
    strangers_.emplace(tag, std::move(stranger));
  }
}

void Door::hear(uint64_t tag) {
  const auto found = strangers_.find(tag);
  if (found == strangers_.end()) {
    return;
  }
  Stranger& stranger = found->second;
  const int socket = stranger.socket.get();
  const Examination::State state = stranger.examination.hear(socket);
  switch (state) {
    case Examination::State::kWaits:
      return;
    case Examination::State::kClaims: {
      const Claim& claim = stranger.examination.claim();
      if (claim.purpose != options_.purpose || claim.acceptor != options_.rank.value ||
          !stranger.examination.answer(socket, options_.secret)) {
        break;
      }
      Stranger answered = std::move(stranger);
      strangers_.erase(found);
      answered.expiry = options_.clock->now() + kHelloTime;
      return queue(std::move(answered));
    }
    case Examination::State::kPassed: {
      Guest guest{stranger.examination.wire(std::move(stranger.socket)),
                  stranger.examination.claim()};
      strangers_.erase(found);
      return enter_(std::move(guest));
    }
    case Examination::State::kFailed:
    case Examination::State::kDiffers:
      if (refuse_) {
        refuse_(stranger.examination.claim(), state);
      }
      break;
    case Examination::State::kClosed:
      break;
  }
  strangers_.erase(found);
}

// What it has said may be here, unread; a claim gives it another turn.
void Door::show_out_oldest() {
  const uint64_t oldest = strangers_.begin()->first;
  hear(oldest);
  strangers_.erase(oldest);
}

TimePoint Door::expiry() const {
  return strangers_.empty() ? rest_.until
                            : std::min(rest_.until, strangers_.begin()->second.expiry);
}

void Door::tick(TimePoint now) {
  while (!strangers_.empty() && strangers_.begin()->second.expiry <= now) {
    show_out_oldest();
  }
  if (rest_.until <= now) {
    rest_.until = TimePoint::max();
    for (const Descriptor& listener : listeners_) {
      static_cast<void>(watch(options_.epoll, listener.get(), EPOLLIN, kFirstTag));
    }
    handle(kFirstTag);  // ends the rest if no connection waits: status() depends on it
  }
}

Status Door::status(TimePoint now) const {
  if (rest_.since == TimePoint::max() || now - rest_.since < kLongestRest) {
    return ok();
  }
  return out_of_descriptors("let other ranks in", rest_.error);
}

}  // namespace pleach
