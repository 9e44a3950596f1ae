// Ranks as threads that know the C interface alone, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/api/pleach.h"

namespace pleach::support::c {

struct Ending {
  void operator()(pleach_endpoint* endpoint) const { pleach_endpoint_destroy(endpoint); }
  void operator()(pleach_communicator* communicator) const {
    pleach_communicator_destroy(communicator);
  }
  void operator()(pleach_operation* operation) const { pleach_operation_destroy(operation); }
};
using Endpoint = std::unique_ptr<pleach_endpoint, Ending>;
using Communicator = std::unique_ptr<pleach_communicator, Ending>;
using Operation = std::unique_ptr<pleach_operation, Ending>;

// "" where it went well.
inline std::string said(pleach_status status) {
  return status == PLEACH_OK ? "" : pleach_last_error();
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Job {
  int32_t rank_count = 2;
  const char* transport = "tcp";
  int64_t deadline_ms = 20'000;
};

// Runs the body on every rank, each a thread with an endpoint of its own.
inline void with_endpoints(const Job& job,
                           const std::function<void(Endpoint, int32_t rank)>& body) {
  int32_t port = 0;
  int32_t listener = -1;
  ASSERT_EQ(said(pleach_listen(nullptr, &port, &listener)), "");
  std::vector<std::thread> ranks;
  for (int32_t rank = 0; rank < job.rank_count; ++rank) {
    ranks.emplace_back([&, rank] {
      pleach_endpoint_options options = {};
      options.size = sizeof(options);
      options.rank_count = job.rank_count;
      options.rank = rank;
      options.store_port = port;
      options.listen_descriptor = rank == 0 ? listener : 0;
      options.transport = job.transport;
      options.deadline_ms = job.deadline_ms;
      pleach_endpoint* endpoint = nullptr;
      ASSERT_EQ(said(pleach_endpoint_create(&options, &endpoint)), "");
      body(Endpoint(endpoint), rank);
    });
  }
  for (std::thread& rank : ranks) {
    rank.join();
  }
}

inline Communicator create(const Endpoint& endpoint, const char* name = "world",
                           const std::vector<int32_t>& ranks = {}) {
  pleach_communicator_options options = {};
  options.size = sizeof(options);
  options.name = name;
  options.ranks = ranks.empty() ? nullptr : ranks.data();
  options.rank_count = static_cast<int32_t>(ranks.size());
  pleach_communicator* communicator = nullptr;
  EXPECT_EQ(said(pleach_communicator_create(endpoint.get(), &options, &communicator)), "");
  return Communicator(communicator);
}

// With a communicator of all ranks, closed at the end.
inline void with_communicators(
    const Job& job, const std::function<void(pleach_communicator*, int32_t rank)>& body) {
  with_endpoints(job, [&](const Endpoint& endpoint, int32_t rank) {
    const Communicator communicator = create(endpoint);
    ASSERT_NE(communicator, nullptr);
    body(communicator.get(), rank);
    if (!testing::Test::HasFatalFailure()) {
      EXPECT_EQ(said(pleach_communicator_close(communicator.get())), "");
    }
  });
}

// What a callback was told.
struct Told {
  std::atomic<int> calls = 0;
  std::atomic<pleach_status> status = PLEACH_INTERNAL;
  std::string error;
  static void hear(void* context, pleach_status status, const char* error) {
    auto& told = *static_cast<Told*>(context);
    told.error = error;
    told.status = status;
    ++told.calls;
  }
};

}  // namespace pleach::support::c
