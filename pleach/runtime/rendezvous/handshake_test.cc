#include "pleach/runtime/rendezvous/handshake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

using Initiator = Introduction::State;
using Acceptor = Examination::State;

std::pair<Descriptor, Descriptor> make_pair() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::string take(const Descriptor& socket) {
  std::array<char, 4096> bytes;
  const ssize_t count = recv(socket.get(), bytes.data(), bytes.size(), 0);
  return {bytes.data(), count > 0 ? at(count) : 0};
}

void say(const Descriptor& socket, const std::string& words) {
  EXPECT_EQ(send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
}

const Claim kClaim = {
    .purpose = Purpose::kTcp, .rank = 3, .acceptor = 1, .rank_count = 4, .meeting = 77};

// Somebody between two ends may change what they say.
using Change = std::function<void(std::string&)>;
Change nothing() {
  return [](std::string&) {};
}

struct Outcome {
  Initiator initiator = Initiator::kWaits;
  Acceptor acceptor = Acceptor::kWaits;
  std::vector<std::string> said = {};  // claim, answer, proof, welcome
};

// A handshake over somebody who passes on what is said.
Outcome shake(const JobSecret& one, const JobSecret& other, const Claim& claim,
              const std::vector<Change>& changes) {
  const auto [left, left_end] = make_pair();
  const auto [right, right_end] = make_pair();
  Introduction introduction(one, claim);
  Examination examination;
  Outcome outcome;
  const auto pass = [&](const Descriptor& from, const Descriptor& to) {
    std::string words = take(from);
    if (outcome.said.size() < changes.size()) {
      changes[outcome.said.size()](words);
    }
    outcome.said.push_back(words);
    say(to, words);
  };
  outcome.initiator = introduction.advance(left.get());
  pass(left_end, right_end);
  outcome.acceptor = examination.hear(right.get());
  if (outcome.acceptor == Acceptor::kClaims) {
    EXPECT_TRUE(examination.answer(right.get(), other));
    pass(right_end, left_end);
    outcome.initiator = introduction.advance(left.get());
    pass(left_end, right_end);
    outcome.acceptor = examination.hear(right.get());
    pass(right_end, left_end);
    if (outcome.initiator == Initiator::kWaits) {
      outcome.initiator = introduction.advance(left.get());
    }
  }
  return outcome;
}

TEST(HandshakeTest, WhoHoldsTheSecretIsLetIn) {
  const JobSecret secret = JobSecret::make();
  for (const JobSecret& held : {secret, JobSecret()}) {
    const Outcome outcome = shake(held, held, kClaim, {});
    EXPECT_EQ(outcome.initiator, Initiator::kWelcome);
    EXPECT_EQ(outcome.acceptor, Acceptor::kPassed);
  }
}

TEST(HandshakeTest, WhoDoesNotIsKnownToTheOther) {
  const JobSecret secret = JobSecret::make();
  for (const auto& [one, other] :
       {std::pair(secret, JobSecret::make()), std::pair(secret, JobSecret()),
        std::pair(JobSecret(), secret)}) {
    const Outcome outcome = shake(one, other, kClaim, {});
    EXPECT_EQ(outcome.initiator, Initiator::kStranger);
    EXPECT_EQ(outcome.acceptor, Acceptor::kFailed);
  }
}

// Where one encrypts and the other does not, both know it, and nothing follows. Over shared memory
// nothing is encrypted.
TEST(HandshakeTest, BothKnowWhereOnlyOneEncrypts) {
  const JobSecret secret = JobSecret::make();
  const JobSecret encrypting = secret.encrypting();
  for (const auto& [one, other] : {std::pair(secret, encrypting), std::pair(encrypting, secret)}) {
    const Outcome outcome = shake(one, other, kClaim, {});
    EXPECT_EQ(outcome.initiator, Initiator::kDiffers);
    EXPECT_EQ(outcome.acceptor, Acceptor::kDiffers);
    Claim shared = kClaim;
    shared.purpose = Purpose::kShm;
    EXPECT_EQ(shake(one, other, shared, {}).initiator, Initiator::kWelcome);
  }
  EXPECT_EQ(shake(encrypting, encrypting, kClaim, {}).acceptor, Acceptor::kPassed);
  // Nobody in between can make them do without.
  std::vector<Change> changes(4, nothing());
  changes[0] = [](std::string& claim) { claim[17] ^= 1; };
  const Outcome outcome = shake(encrypting, encrypting, kClaim, changes);
  EXPECT_EQ(outcome.initiator, Initiator::kStranger);
  changes[0] = nothing();
  changes[3] = [](std::string& welcome) { welcome = "w"; };
  EXPECT_EQ(shake(encrypting, encrypting, kClaim, changes).initiator, Initiator::kDiffers);
}

// Every byte that is said counts, and what was said elsewhere does not.
TEST(HandshakeTest, WhatWasChangedOrSaidBeforeIsNoProof) {
  const JobSecret secret = JobSecret::make();
  const Outcome good = shake(secret, secret, kClaim, {});
  for (std::size_t message = 0; message < 3; ++message) {
    for (std::size_t byte = 0; byte < good.said[message].size(); ++byte) {
      std::vector<Change> changes(4, nothing());
      changes[message] = [&](std::string& words) { words[byte] ^= 1; };
      const Outcome outcome = shake(secret, secret, kClaim, changes);
      EXPECT_NE(outcome.initiator, Initiator::kWelcome) << message << " " << byte;
      EXPECT_NE(outcome.acceptor, Acceptor::kPassed) << message << " " << byte;
    }
  }
  const auto replay = [&](std::size_t message) {
    return [&good, message](std::string& words) { words = good.said[message]; };
  };
  // Replayed to an acceptor: all of the initiator's; to an initiator: the acceptor's.
  EXPECT_EQ(shake(secret, secret, kClaim, {replay(0), nothing(), replay(2)}).acceptor,
            Acceptor::kFailed);
  EXPECT_EQ(shake(secret, secret, kClaim, {nothing(), replay(1)}).initiator, Initiator::kStranger);
}

// The acceptor's own nonce and proof, said back to it.
TEST(HandshakeTest, AReflectionIsNoProof) {
  const JobSecret secret = JobSecret::make();
  std::string answer;
  const Outcome outcome =
      shake(secret, secret, kClaim,
            {nothing(), [&](std::string& words) { answer = words; },
             [&](std::string& words) { words = answer.substr(sizeof(Digest)); }});
  EXPECT_EQ(outcome.acceptor, Acceptor::kFailed);
}

// A proof that two ends are making is of no use on another connection, or for another purpose.
TEST(HandshakeTest, AProofIsOfOneConnection) {
  const JobSecret secret = JobSecret::make();
  struct Case {
    std::string name;
    Claim claim;
  };
  std::vector<Case> cases(6, {"another connection", kClaim});
  cases[1] = {"purpose", kClaim};
  cases[1].claim.purpose = Purpose::kShm;
  cases[2] = {"rank", kClaim};
  cases[2].claim.rank = 2;
  cases[3] = {"acceptor", kClaim};
  cases[3].claim.acceptor = 0;
  cases[4] = {"rank count", kClaim};
  cases[4].claim.rank_count = 8;
  cases[5] = {"meeting", kClaim};
  cases[5].claim.meeting = 78;
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    // Two acceptors; the second hears the proof that is made for the first.
    const auto [left, left_end] = make_pair();
    const auto [other, other_end] = make_pair();
    Introduction introduction(secret, kClaim);
    introduction.advance(left.get());
    Introduction posing(JobSecret::make(), row.claim);
    posing.advance(other.get());
    Examination first, second;
    ASSERT_EQ(first.hear(left_end.get()), Acceptor::kClaims);
    ASSERT_EQ(second.hear(other_end.get()), Acceptor::kClaims);
    EXPECT_EQ(second.claim().meeting, row.claim.meeting);
    ASSERT_TRUE(first.answer(left_end.get(), secret));
    ASSERT_TRUE(second.answer(other_end.get(), secret));
    introduction.advance(left.get());
    say(other, take(left_end));
    EXPECT_EQ(second.hear(other_end.get()), Acceptor::kFailed);
  }
}

TEST(HandshakeTest, WordsMayTrickleInAndNothingAfterThemIsRead) {
  const JobSecret secret = JobSecret::make();
  const auto [left, middle] = make_pair();
  const auto [right, right_end] = make_pair();
  Introduction introduction(secret, kClaim);
  introduction.advance(left.get());
  Examination examination;
  Acceptor state = Acceptor::kWaits;
  const auto trickle = [&](const std::string& words) {
    for (const char letter : words) {
      EXPECT_EQ(state, Acceptor::kWaits);
      say(right, std::string(1, letter));
      state = examination.hear(right_end.get());
    }
  };
  trickle(take(middle));
  ASSERT_EQ(state, Acceptor::kClaims);
  ASSERT_TRUE(examination.answer(right_end.get(), secret));
  for (const char letter : take(right)) {
    EXPECT_EQ(introduction.advance(left.get()), Initiator::kWaits);
    say(middle, std::string(1, letter));
  }
  EXPECT_EQ(introduction.advance(left.get()), Initiator::kWaits);
  state = Acceptor::kWaits;
  trickle(take(middle));
  EXPECT_EQ(state, Acceptor::kPassed);
  say(middle, take(right) + "frames");
  EXPECT_EQ(introduction.advance(left.get()), Initiator::kWelcome);
  EXPECT_EQ(take(left), "frames");
}

TEST(HandshakeTest, EndsThatLeaveAreNoticed) {
  const JobSecret secret = JobSecret::make();
  auto [left, right] = make_pair();
  Introduction introduction(secret, kClaim);
  EXPECT_EQ(introduction.advance(left.get()), Initiator::kWaits);
  right = Descriptor();
  EXPECT_EQ(introduction.advance(left.get()), Initiator::kClosed);
  EXPECT_EQ(Introduction(secret, kClaim).advance(left.get()), Initiator::kClosed);
  EXPECT_EQ(Examination().hear(left.get()), Acceptor::kClosed);
}

// RFC 4231, test case 6: the keys of those before it are too short for a secret.
TEST(JobSecretTest, SignsAsTheStandardDoes) {
  const std::string key(131, '\xaa');
  const std::string words = "Test Using Larger Than Block-Size Key - Hash Key First";
  const Digest digest = JobSecret::parse(key, "key").value().sign(std::as_bytes(std::span(words)));
  EXPECT_EQ(digest[0], std::byte{0x60});
  EXPECT_EQ(digest[1], std::byte{0xe4});
  EXPECT_EQ(digest[2], std::byte{0x31});
  EXPECT_EQ(digest[31], std::byte{0x54});
}

TEST(JobSecretTest, AShortOneIsRefusedWithoutSayingIt) {
  const auto refused = JobSecret::parse("swordfish", "PLEACH_SECRET");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message,
            "PLEACH_SECRET has 9 letters; a secret has at least 16, as of `openssl rand -hex 32`");
  EXPECT_EQ(JobSecret::make().text().size(), 64U);
  EXPECT_NE(JobSecret::make().text(), JobSecret::make().text());
}

}  // namespace
}  // namespace pleach
