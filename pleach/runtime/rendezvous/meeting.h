// Meeting: how a rank comes by a connection to each of its peers, both sure that the other is of
// the job. Of a pair, the lower rank has the door and the higher one comes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/door.h"
#include "pleach/runtime/rendezvous/handshake.h"

namespace pleach {

// Used by one thread; its owner waits on the epoll.
class Meeting {
 public:
  struct Options {
    Purpose purpose = Purpose::kTcp;
    Rank rank;
    int32_t rank_count = 1;
    uint16_t lanes = 1;  // connections of each pair
    JobSecret secret;
    uint64_t nonce = 0;  // tells this meeting from another that had its address before
    int epoll = -1;
    const Clock* clock = nullptr;
    // So long what fails is tried again. A peer that answers nothing, perhaps because it computes
    // and does not look, is waited for as long as who has something for it waits.
    Duration deadline;
  };
  // What becomes of a peer, told once of each lane: its connection, in the epoll already; or why
  // there is none, a literal.
  using Met = std::function<void(Rank, uint16_t lane, Wire)>;
  using Missed = std::function<void(Rank, const char*)>;
  // Starts to connect. Errors: kTimeout: not now; kInfeasible: this rank has no descriptors.
  using Connect = std::function<Result<Descriptor>()>;

  Status open(Options options, Descriptor listener, Met met, Missed missed);
  // Lets in who comes there, too.
  Status also_listen(Descriptor listener) { return door_.also_listen(std::move(listener)); }
  // Comes to a peer of a lower rank, whose meeting has that nonce. Does nothing if it does already.
  // Errors: kInfeasible: this rank has no descriptors left.
  Status approach(Rank peer, uint16_t lane, uint64_t nonce, Connect connect);

  // Tags of the epoll from here on are the meeting's; ranks have those below.
  static constexpr uint64_t kFirstTag = Door::kFirstTag;
  Status handle(uint64_t tag, uint32_t events);
  // When something is to be done at the latest, and what.
  TimePoint expiry() const;
  // Errors: kInfeasible: as approach(); or nobody can be let in, for the same reason.
  Status tick(TimePoint now);

 private:
  struct Approach {
    Connect connect;
    Claim claim;
    TimePoint deadline;
    Descriptor socket = {};
    std::optional<Introduction> introduction = {};  // empty: not connected
    TimePoint retry = TimePoint::max();
  };
  void enter(Guest guest);
  Status start(uint64_t tag, Approach& way);
  Status advance(uint64_t tag, uint32_t events);
  void miss(uint64_t tag, const char* reason);

  Options options_;
  Met met_;
  Missed missed_;
  Door door_;
  std::map<uint64_t, Approach> approaches_;  // by tag
};

}  // namespace pleach
