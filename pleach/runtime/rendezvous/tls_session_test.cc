#include "pleach/runtime/rendezvous/tls_session.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

using Side = TlsSession::Side;

std::pair<Descriptor, Descriptor> make_pair() {
  std::array<int, 2> ends = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// One end: what it is to say, and what it has heard.
struct End {
  TlsSession session;
  std::string words = {};
  std::size_t said = 0;
  std::string heard = {};
  bool is_broken = false;

  // Says and hears at most that many bytes, in pieces.
  void advance(std::size_t bytes) {
    const std::size_t left = std::min(bytes, words.size() - said);
    const std::array<iovec, 2> from = {iovec{words.data() + said, left / 3},
                                       iovec{words.data() + said + left / 3, left - left / 3}};
    note(left > 0 ? session.write(from) : session.flush() ? 0 : -1, said);
    std::string place(bytes, '?');
    const std::array<iovec, 2> to = {iovec{place.data(), bytes / 4},
                                     iovec{place.data() + bytes / 4, bytes - bytes / 4}};
    std::size_t count = 0;
    note(session.read(to), count);
    heard += place.substr(0, count);
  }
  void note(ssize_t count, std::size_t& total) {
    is_broken = is_broken || (count < 0 && errno != EAGAIN);
    total += count > 0 ? at(count) : 0;
  }
};

std::string noise(Rng& rng, std::size_t length) {
  std::string bytes;
  while (bytes.size() < length) {
    bytes += static_cast<char>(rng.below(256));
  }
  return bytes;
}

// Somebody between two ends may change what they say.
using Change = std::function<void(std::string&)>;
// A client and a server with a wire between them that the test may cut.
struct Talk {
  std::pair<Descriptor, Descriptor> left = make_pair();
  std::pair<Descriptor, Descriptor> right = make_pair();
  End client, server;
  Change to_server = [](std::string& /*bytes*/) {};

  Talk(const Digest& one, const Digest& other, int64_t records_per_key = 1000)
      : client{.session = TlsSession(left.first.get(), one, Side::kClient, records_per_key)},
        server{.session = TlsSession(right.first.get(), other, Side::kServer, records_per_key)} {}

  // Whether something was passed on.
  static bool pass(const Descriptor& from, const Descriptor& to, const Change& change) {
    std::array<char, 5000> bytes;
    const ssize_t count = recv(from.get(), bytes.data(), bytes.size(), 0);
    if (count <= 0) {
      return false;
    }
    std::string text(bytes.data(), at(count));
    change(text);
    EXPECT_EQ(send(to.get(), text.data(), text.size(), MSG_NOSIGNAL), std::ssize(text));
    return true;
  }
  void run(Rng& rng) {
    for (int idle = 0; idle < 3;) {
      client.advance(1 + rng.below(40'000));
      server.advance(1 + rng.below(40'000));
      const bool forth = pass(left.second, right.second, to_server);
      const bool back = pass(right.second, left.second, [](std::string& /*bytes*/) {});
      idle = forth || back ? 0 : idle + 1;
    }
  }
};

TEST(TlsSessionTest, WhatIsSaidIsHeardHoweverItIsCut) {
  Rng rng(5);
  for (const int64_t records_per_key : {3, 1000}) {
    const Digest key = random_digest();
    Talk talk(key, key, records_per_key);
    talk.client.words = noise(rng, 2'500'000);
    talk.server.words = noise(rng, 900'000);
    std::size_t plain = 0;
    talk.to_server = [&](std::string& bytes) {
      plain += bytes.find(talk.client.words.substr(0, 20)) != std::string::npos ? 1 : 0;
    };
    talk.run(rng);
    EXPECT_TRUE(talk.server.heard == talk.client.words);
    EXPECT_TRUE(talk.client.heard == talk.server.words);
    EXPECT_FALSE(talk.client.is_broken || talk.server.is_broken);
    EXPECT_EQ(plain, 0U);
  }
}

// Who waits for the socket would wait for ever for what a write has taken from it.
TEST(TlsSessionTest, WhatComesBehindTheHandshakeStaysInTheSocketUntilItIsRead) {
  const auto [left, right] = make_pair();
  const Digest key = random_digest();
  TlsSession client(left.get(), key, Side::kClient);
  TlsSession server(right.get(), key, Side::kServer);
  EXPECT_FALSE(client.flush());
  EXPECT_FALSE(server.flush());
  std::string word = "behind";
  const iovec from = {word.data(), word.size()};
  EXPECT_EQ(client.write(std::span(&from, 1)), std::ssize(word));
  EXPECT_TRUE(server.flush());
  pollfd what = {right.get(), POLLIN, 0};
  EXPECT_EQ(poll(&what, 1, 0), 1);
  std::string place(word.size(), '?');
  const iovec to = {place.data(), place.size()};
  EXPECT_EQ(server.read(std::span(&to, 1)), std::ssize(word));
  EXPECT_EQ(place, word);
}

TEST(TlsSessionTest, WithoutTheKeyNothingIsHeard) {
  Rng rng(6);
  Talk talk(random_digest(), random_digest());
  talk.client.words = talk.server.words = "secret";
  talk.run(rng);
  EXPECT_TRUE(talk.client.is_broken && talk.server.is_broken);
  EXPECT_EQ(talk.client.heard + talk.server.heard, "");
}

// Anything but TLS, on either side.
TEST(TlsSessionTest, WhoDoesNotSpeakItIsNotHeard) {
  Rng rng(7);
  for (const Side side : {Side::kClient, Side::kServer}) {
    for (int round = 0; round < 20; ++round) {
      const auto [own, other] = make_pair();
      End end{.session = TlsSession(own.get(), random_digest(), side), .words = "secret"};
      end.advance(1000);
      const std::string words =
          round == 0 ? std::string("GET / HTTP/1.1\r\n\r\n") : noise(rng, 20 + rng.below(300));
      EXPECT_EQ(send(other.get(), words.data(), words.size(), MSG_NOSIGNAL), std::ssize(words));
      end.advance(1000);
      EXPECT_EQ(end.heard, "");
      std::array<char, 4096> bytes;
      const ssize_t count = recv(other.get(), bytes.data(), bytes.size(), 0);
      EXPECT_EQ(std::string(bytes.data(), count > 0 ? at(count) : 0).find("secret"),
                std::string::npos);
    }
  }
}

// A byte that is changed on the way, or the end in the middle of a record, ends it; what was heard
// is what was said.
TEST(TlsSessionTest, WhatWasChangedOrCutIsNotHeard) {
  Rng rng(8);
  std::size_t heard = 0;
  for (int round = 0; round < 60; ++round) {
    const Digest key = random_digest();
    Talk talk(key, key);
    talk.client.words = noise(rng, 50'000);
    uint64_t left = rng.below(51'000);
    bool is_over = false;
    talk.to_server = [&](std::string& bytes) {
      if (is_over && round % 2 == 0) {
        bytes.clear();
      } else if (!is_over && left < bytes.size()) {
        is_over = true;
        round % 2 == 0 ? bytes.resize(left) : void(bytes[left] ^= 1);
      }
      left -= std::min<uint64_t>(left, bytes.size());
    };
    talk.run(rng);
    if (round % 2 == 0) {
      talk.right.second.close();
      talk.server.advance(1000);
    }
    EXPECT_TRUE(talk.server.is_broken) << round;
    EXPECT_TRUE(talk.client.words.starts_with(talk.server.heard)) << round;
    EXPECT_LT(talk.server.heard.size(), talk.client.words.size()) << round;
    heard += talk.server.heard.size();
  }
  EXPECT_GT(heard, 500'000U);  // half of it, if half of the changes come after half
}

}  // namespace
}  // namespace pleach
