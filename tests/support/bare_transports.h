// The transports of some ranks, with nothing above them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"
#include "tests/support/job_secret.h"
#include "tests/support/transports.h"

namespace pleach::support {

// Segments land in their places.
class NoHome final : public Sink {
 public:
  std::span<std::byte> home(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                            uint64_t /*fingerprint*/, std::size_t /*bytes*/) override {
    return {};
  }
};

// The bare transports of some ranks; each is used by one thread at a time.
class BareTransports {
 public:
  BareTransports(const std::string& name, int32_t rank_count)
      : store_(make_local_store(job_secret())) {
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      transports_.push_back(make_transport(name, {.rank = Rank{rank},
                                                  .rank_count = rank_count,
                                                  .store = store_,
                                                  .epoch = store_->epoch(),
                                                  .clock = &clock_,
                                                  .key_prefix = "test",
                                                  .deadline = std::chrono::seconds(20)}));
      transports_.back()->set_sink(no_home_);
    }
    introduce_all(transports_);
  }
  Transport& operator[](int32_t rank) { return *transports_[at(rank)]; }
  Store& store() { return *store_; }
  void destroy(int32_t rank) { transports_[at(rank)].reset(); }

  void open(const ChannelOptions& channel) {
    for (const std::unique_ptr<Transport>& transport : transports_) {
      ASSERT_TRUE(transport->open(channel));
    }
  }
  // What a rank sees until it has seen `count` events, all ranks making progress meanwhile.
  std::vector<TransportEvent> see(int32_t rank, std::size_t count) {
    std::vector<TransportEvent>& seen = seen_[at(rank)];
    const TimePoint last = clock_.now() + std::chrono::seconds(20);
    while (seen.size() < count && clock_.now() < last) {
      for (int32_t other = 0; other < std::ssize(transports_); ++other) {
        Transport* const transport = transports_[at(other)].get();
        if (transport != nullptr) {
          EXPECT_TRUE(transport->flush());
          EXPECT_TRUE(transport->wait(clock_.now() + std::chrono::milliseconds(1), other % 2 == 0));
          EXPECT_TRUE(transport->progress(seen_[at(other)]));
        }
      }
    }
    EXPECT_GE(seen.size(), count);
    return std::exchange(seen, {});
  }

 private:
  SteadyClock clock_;
  NoHome no_home_;
  std::shared_ptr<Store> store_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<std::vector<TransportEvent>> seen_{64};
};

}  // namespace pleach::support
