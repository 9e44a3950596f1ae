#include "pleach/runtime/rendezvous/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/wire.h"

namespace pleach {
namespace {

static_assert(std::endian::native == std::endian::little, "claims travel in little-endian form");

constexpr uint64_t kMagic = 0x0a32'4843'4145'4c50;  // "PLEACH2\n"

// The welcome, and what the acceptor does from then on.
constexpr std::byte welcome(bool encrypts) {
  return encrypts ? std::byte{'t'} : std::byte{'w'};
}

// Memory is shared by descriptors, which only travel as they are.
bool encrypts(const JobSecret& secret, Purpose purpose) {
  return secret.encrypts() && purpose != Purpose::kShm;
}

// A claim as it travels, and as it is signed.
struct ClaimWords {
  uint64_t magic = kMagic;
  uint64_t meeting = 0;
  uint8_t purpose = 0;
  uint8_t encrypts = 0;
  uint16_t lane = 0;
  int32_t rank = 0;
  int32_t acceptor = 0;
  int32_t rank_count = 0;
  Digest nonce = {};
};
static_assert(sizeof(ClaimWords) == 64);

ClaimWords write(const Claim& claim) {
  return {.meeting = claim.meeting,
          .purpose = static_cast<uint8_t>(claim.purpose),
          .encrypts = claim.encrypts ? uint8_t{1} : uint8_t{0},
          .lane = claim.lane,
          .rank = claim.rank,
          .acceptor = claim.acceptor,
          .rank_count = claim.rank_count,
          .nonce = claim.nonce};
}

enum class Side : uint64_t { kInitiator = 1, kAcceptor = 2, kBoth = 3 };

Digest prove(const JobSecret& secret, Side side, const Claim& claim, const Digest& nonce) {
  struct Statement {
    uint64_t side;
    ClaimWords claim;
    Digest nonce;
  };
  static_assert(sizeof(Statement) == 8 + 64 + 32, "no byte of it is left open");
  const Statement statement = {static_cast<uint64_t>(side), write(claim), nonce};
  return secret.sign(std::as_bytes(std::span(&statement, 1)));
}

// The key of a connection.
Digest make_key(const JobSecret& secret, const Claim& claim, const Digest& nonce) {
  return prove(secret, Side::kBoth, claim, nonce);
}

Wire make_wire(Descriptor socket, bool encrypts, const Digest& key, TlsSession::Side side) {
  return encrypts ? Wire(std::move(socket), key, side) : Wire(std::move(socket));
}

// A few bytes into a socket that has just connected: it takes them, or is gone.
bool say(int socket, std::span<const std::byte> bytes) {
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) == std::ssize(bytes);
}

enum class Reading : uint8_t { kDone, kWaits, kClosed };

// Exactly those bytes, and none after them.
Reading read_into(int socket, std::span<std::byte> bytes, std::size_t& received) {
  while (received < bytes.size()) {
    const ssize_t count = recv(socket, bytes.data() + received, bytes.size() - received, 0);
    if (count > 0) {
      received += at(count);
    } else if (count == 0 || errno != EINTR) {
      return count < 0 && errno == EAGAIN ? Reading::kWaits : Reading::kClosed;
    }
  }
  received = 0;
  return Reading::kDone;
}

}  // namespace

Introduction::Introduction(JobSecret secret, Claim claim)
    : secret_(std::move(secret)), claim_(claim) {
  claim_.nonce = random_digest();
  claim_.encrypts = encrypts(secret_, claim_.purpose);
}

Wire Introduction::wire(Descriptor socket) const {
  return make_wire(std::move(socket), claim_.encrypts, key_, TlsSession::Side::kClient);
}

Wire Examination::wire(Descriptor socket) const {
  return make_wire(std::move(socket), encrypts_, key_, TlsSession::Side::kServer);
}

Introduction::State Introduction::advance(int socket) {
  if (!has_claimed_) {
    has_claimed_ = true;
    const ClaimWords words = write(claim_);
    if (!say(socket, std::as_bytes(std::span(&words, 1)))) {
      return State::kClosed;
    }
  }
  if (!has_proved_) {
    const Reading reading = read_into(socket, answer_, received_);
    if (reading != Reading::kDone) {
      return reading == Reading::kWaits ? State::kWaits : State::kClosed;
    }
    Digest nonce, proof;
    std::memcpy(nonce.data(), answer_.data(), nonce.size());
    std::memcpy(proof.data(), answer_.data() + nonce.size(), proof.size());
    if (!is_same(proof, prove(secret_, Side::kAcceptor, claim_, nonce))) {
      // Says so in its place, with what is no proof.
      static_cast<void>(say(socket, Digest()));
      return State::kStranger;
    }
    has_proved_ = true;
    key_ = make_key(secret_, claim_, nonce);
    if (!say(socket, prove(secret_, Side::kInitiator, claim_, nonce))) {
      return State::kClosed;
    }
  }
  const Reading reading = read_into(socket, std::span(answer_).first(1), received_);
  if (reading == Reading::kWaits) {
    return State::kWaits;
  }
  if (reading == Reading::kDone && answer_[0] == welcome(!claim_.encrypts)) {
    return State::kDiffers;
  }
  const bool is_welcome = reading == Reading::kDone && answer_[0] == welcome(claim_.encrypts);
  return is_welcome ? State::kWelcome : State::kClosed;
}

Examination::State Examination::hear(int socket) {
  const std::size_t awaited = claim_ ? sizeof(Digest) : sizeof(ClaimWords);
  const Reading reading = read_into(socket, std::span(words_).first(awaited), received_);
  if (reading != Reading::kDone) {
    return reading == Reading::kWaits ? State::kWaits : State::kClosed;
  }
  if (claim_) {
    Digest proof;
    std::memcpy(proof.data(), words_.data(), proof.size());
    if (!is_same(proof, expected_)) {
      return State::kFailed;
    }
    const std::byte word = welcome(encrypts_);
    if (!say(socket, std::span(&word, 1))) {
      return State::kClosed;
    }
    return encrypts_ == claim_->encrypts ? State::kPassed : State::kDiffers;
  }
  ClaimWords words;
  std::memcpy(&words, words_.data(), sizeof(words));
  if (words.magic != kMagic) {
    return State::kClosed;
  }
  claim_ = {.purpose = static_cast<Purpose>(words.purpose),
            .lane = words.lane,
            .rank = words.rank,
            .acceptor = words.acceptor,
            .rank_count = words.rank_count,
            .encrypts = words.encrypts == 1,
            .meeting = words.meeting,
            .nonce = words.nonce};
  return State::kClaims;
}

bool Examination::answer(int socket, const JobSecret& secret) {
  const Digest nonce = random_digest();
  const Digest proof = prove(secret, Side::kAcceptor, *claim_, nonce);
  expected_ = prove(secret, Side::kInitiator, *claim_, nonce);
  key_ = make_key(secret, *claim_, nonce);
  encrypts_ = encrypts(secret, claim_->purpose);
  std::array<std::byte, 2 * sizeof(Digest)> words;
  std::memcpy(words.data(), nonce.data(), nonce.size());
  std::memcpy(words.data() + nonce.size(), proof.data(), proof.size());
  return say(socket, words);
}

Introduction::State introduce(int socket, Introduction& introduction,
                              const std::function<bool()>& wait) {
  Introduction::State state = introduction.advance(socket);
  while (state == Introduction::State::kWaits && wait()) {
    state = introduction.advance(socket);
  }
  return state;
}

}  // namespace pleach
