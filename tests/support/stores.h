// Stores of both kinds, for tests of what ranks do over one.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <utility>

#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/store.h"
#include "tests/support/job_secret.h"
#include "tests/support/rank_threads.h"

namespace pleach::support {

// A port that rank 0 will serve on.
struct Served {
  Descriptor listener = std::move(listen_on({"127.0.0.1", 0})).value();
  int port = local_address(listener.get())->port;
  JobSecret secret = job_secret();

  TcpStoreOptions options(Rank rank, int32_t rank_count,
                          Duration deadline = std::chrono::seconds(10)) const {
    return {.host = "127.0.0.1",
            .port = port,
            .rank = rank,
            .rank_count = rank_count,
            .deadline = deadline,
            // The store takes its own.
            .listen_descriptor = rank.value == 0 ? dup(listener.get()) : -1,
            .job = "test",
            .rendezvous_file = "",
            .secret = secret};
  }
};

// Calls the body on every rank with a store of either kind.
inline void with_stores(int32_t rank_count, const std::function<void(Store&, Rank)>& body) {
  {
    SCOPED_TRACE("local");
    const auto store = make_local_store();
    on_every_rank(rank_count, [&](Rank rank) { body(*store, rank); });
  }
  SCOPED_TRACE("tcp");
  const Served served;
  on_every_rank(rank_count, [&](Rank rank) {
    const auto store = make_tcp_store(served.options(rank, rank_count));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    body(**store, rank);
  });
}

}  // namespace pleach::support
