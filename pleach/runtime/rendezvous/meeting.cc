#include "pleach/runtime/rendezvous/meeting.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

namespace pleach {
namespace {

constexpr uint64_t kFirstApproach = uint64_t{1} << 62;  // and the lane and the rank
constexpr Duration kRetry = std::chrono::milliseconds(1);
constexpr const char* kClosedDoor =
    "it does not accept connections: it has left, or has no descriptors left (ulimit -n)";

uint64_t tag_of(Rank peer, uint16_t lane) {
  return kFirstApproach + (uint64_t{lane} << 32) + static_cast<uint64_t>(peer.value);
}

Rank peer_of(uint64_t tag) {
  return Rank{static_cast<int32_t>(tag)};
}

}  // namespace

Status Meeting::open(Options options, Descriptor listener, Met met, Missed missed) {
  options_ = std::move(options);
  met_ = std::move(met);
  missed_ = std::move(missed);
  return door_.open({.listener = std::move(listener),
                     .epoll = options_.epoll,
                     .secret = options_.secret,
                     .purpose = options_.purpose,
                     .rank = options_.rank,
                     .rank_count = options_.rank_count,
                     .clock = options_.clock},
                    [this](Guest guest) { enter(std::move(guest)); });
}

void Meeting::enter(Guest guest) {
  const Claim& claim = guest.claim;
  if (claim.meeting == options_.nonce && claim.rank_count == options_.rank_count &&
      claim.rank > options_.rank.value && claim.rank < options_.rank_count &&
      claim.lane < options_.lanes) {
    met_(Rank{claim.rank}, claim.lane, std::move(guest.wire));
  }
}

Status Meeting::approach(Rank peer, uint16_t lane, uint64_t nonce, Connect connect) {
  const uint64_t tag = tag_of(peer, lane);
  const auto [way, is_new] =
      approaches_.try_emplace(tag, Approach{.connect = std::move(connect),
                                            .claim = {.purpose = options_.purpose,
                                                      .lane = lane,
                                                      .rank = options_.rank.value,
                                                      .acceptor = peer.value,
                                                      .rank_count = options_.rank_count,
                                                      .meeting = nonce},
                                            .deadline = options_.clock->now() + options_.deadline});
  return is_new ? start(tag, way->second) : ok();
}

Status Meeting::start(uint64_t tag, Approach& way) {
  way.introduction.reset();
  way.retry = TimePoint::max();
  Result<Descriptor> socket = way.connect();
  if (socket) {
    way.socket = std::move(socket).value();
    return watch(options_.epoll, way.socket.get(), EPOLLIN | EPOLLOUT, tag);
  }
  if (socket.error().code == ErrorCode::kInfeasible) {
    return socket.error();
  }
  const TimePoint now = options_.clock->now();
  if (socket.error().code == ErrorCode::kTimeout && now < way.deadline) {
    way.retry = now + kRetry;
  } else {
    miss(tag, kClosedDoor);
  }
  return ok();
}

void Meeting::miss(uint64_t tag, const char* reason) {
  approaches_.erase(tag);
  missed_(peer_of(tag), reason);
}

Status Meeting::advance(uint64_t tag, uint32_t events) {
  const auto found = approaches_.find(tag);
  if (found == approaches_.end() || !found->second.socket.is_open()) {
    return ok();  // over by an earlier event of the same batch
  }
  Approach& way = found->second;
  const int socket = way.socket.get();
  if (!way.introduction) {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) {
      return ok();
    }
    if (connect_error(socket) != 0) {
      miss(tag, kClosedDoor);
      return ok();
    }
    set_no_delay(socket);
    way.introduction.emplace(options_.secret, way.claim);
    PLEACH_TRY(watch(options_.epoll, socket, EPOLLIN, tag));
  }
  switch (way.introduction->advance(socket)) {
    case Introduction::State::kWaits:
      break;
    case Introduction::State::kWelcome: {
      Wire met = way.introduction->wire(std::move(way.socket));
      approaches_.erase(found);
      met_(peer_of(tag), static_cast<uint16_t>(tag >> 32), std::move(met));
      break;
    }
    case Introduction::State::kDiffers:
      miss(tag, "one of the two encrypts, and the other does not (PLEACH_TLS)");
      break;
    case Introduction::State::kStranger:
      miss(tag, "what listens at its address does not hold this job's secret");
      break;
    case Introduction::State::kClosed: {
      // Among many strangers a rank may be sent away before it is known.
      const TimePoint now = options_.clock->now();
      way.socket = Descriptor();
      if (now < way.deadline) {
        way.retry = now + kRetry;
      } else {
        miss(tag, kClosedDoor);
      }
      break;
    }
  }
  return ok();
}

Status Meeting::handle(uint64_t tag, uint32_t events) {
  if (tag >= kFirstApproach) {
    return advance(tag, events);
  }
  door_.handle(tag);
  return ok();
}

TimePoint Meeting::expiry() const {
  TimePoint first = door_.expiry();
  for (const auto& [tag, way] : approaches_) {
    first = std::min(first, way.retry);
  }
  return first;
}

Status Meeting::tick(TimePoint now) {
  door_.tick(now);
  PLEACH_TRY(door_.status(now));
  for (auto next = approaches_.begin(); next != approaches_.end();) {
    const auto way = next++;  // it may be over
    if (way->second.retry <= now) {
      PLEACH_TRY(start(way->first, way->second));
    }
  }
  return ok();
}

}  // namespace pleach
