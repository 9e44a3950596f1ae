// Communicators of ranks that are threads.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "pleach/runtime/communicator.h"
#include "pleach/runtime/rendezvous/store.h"
#include "tests/support/rank_threads.h"

namespace pleach::support {

// Calls the body on every rank with a communicator over one local store, which the body closes.
inline void with_communicators(int32_t rank_count,
                               const std::function<void(std::unique_ptr<Communicator>)>& body,
                               const std::string& transport = "inproc") {
  const auto store = make_local_store();
  on_every_rank(rank_count, [&](Rank rank) {
    auto endpoint = Endpoint::create({.rank = rank,
                                      .rank_count = rank_count,
                                      .transport = transport,
                                      .store = store,
                                      .deadline = std::chrono::seconds(20)});
    ASSERT_TRUE(endpoint.has_value()) << endpoint.error().message;
    auto communicator = Communicator::create(*endpoint);
    ASSERT_TRUE(communicator.has_value()) << communicator.error().message;
    body(std::move(communicator).value());
  });
}

}  // namespace pleach::support
