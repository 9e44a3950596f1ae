// How two ends of a socket prove to each other that they hold the job's secret, before anything
// else is read from it:
//
//   initiator  a claim: who it is and whom it looks for, for what, and a nonce
//   acceptor   a nonce, and its proof
//   initiator  its proof; nothing, and it leaves, where the acceptor's is wrong
//   acceptor   a byte: welcome
//
// A proof signs its side, the whole claim and both nonces. So one that was made on another
// connection, by the other side, for another purpose or other ranks is none here. What follows on
// the connection is neither signed nor encrypted; or it is TLS by a key of this connection's own,
// which both have made of the secret, the claim and the nonces. The claim, and the welcome, say
// which: where the two differ, both know it, and nothing follows.
//   source  ISO/IEC 9798-4, three pass mutual authentication; Menezes et al., Handbook of Applied
//           Cryptography, 10.17 (SKID3); the welcome is ours: from then on the acceptor keeps the
//           connection, however many strangers come
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/secret.h"
#include "pleach/runtime/rendezvous/wire.h"

namespace pleach {

enum class Purpose : uint8_t { kStore = 1, kTcp = 2, kShm = 3 };

// What the initiator says of the connection. Nothing of it is secret, and nothing of it is known to
// be true before its proof.
struct Claim {
  Purpose purpose = Purpose::kStore;
  uint16_t lane = 0;       // which of the pair's connections for that purpose it is
  int32_t rank = 0;        // of the initiator
  int32_t acceptor = 0;    // the rank that it looks for
  int32_t rank_count = 1;  // as it counts them
  bool encrypts = false;   // made by Introduction
  uint64_t meeting = 0;    // what the acceptor has published, where it has
  Digest nonce = {};       // made by Introduction
};

// The initiator's side, over a connected non-blocking socket.
class Introduction {
 public:
  enum class State : uint8_t {
    kWaits,     // until the socket is readable
    kWelcome,   // the rest of what comes is the acceptor's own
    kClosed,    // it was not let in, or the connection broke: another try may help
    kStranger,  // the acceptor does not hold the secret
    kDiffers,   // one of the two encrypts, and the other does not
  };
  Introduction(JobSecret secret, Claim claim);
  // Says the claim at first, then what there is to say.
  State advance(int socket);
  // What follows on the socket, after kWelcome.
  Wire wire(Descriptor socket) const;

 private:
  JobSecret secret_;
  Claim claim_;
  bool has_claimed_ = false;
  bool has_proved_ = false;
  std::array<std::byte, 2 * sizeof(Digest)> answer_ = {};
  std::size_t received_ = 0;
  Digest key_ = {};
};

// The acceptor's side.
class Examination {
 public:
  enum class State : uint8_t {
    kWaits,    // until the socket is readable
    kClaims,   // the claim is here: call answer(), or leave
    kPassed,   // and was told so
    kFailed,   // its proof is wrong
    kDiffers,  // it is of the job, but one of the two encrypts, and the other does not
    kClosed,
  };
  // Reads what there is to read.
  State hear(int socket);
  const Claim& claim() const { return *claim_; }
  // Returns false when the connection broke.
  bool answer(int socket, const JobSecret& secret);
  // What follows on the socket, after kPassed.
  Wire wire(Descriptor socket) const;

 private:
  std::array<std::byte, 64> words_ = {};
  std::size_t received_ = 0;
  std::optional<Claim> claim_;
  Digest expected_ = {};  // the initiator's proof
  Digest key_ = {};
  bool encrypts_ = false;  // this side
};

// An Introduction from its beginning to its end, or until the wait for an answer fails (kWaits).
Introduction::State introduce(int socket, Introduction& introduction,
                              const std::function<bool()>& wait);

}  // namespace pleach
