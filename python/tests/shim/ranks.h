// Ranks of a process group as threads of a test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend.h"
#include "background.h"

namespace pleach_torch {

using BackendPointer = c10::intrusive_ptr<Backend>;

inline JoinOptions options_of(const std::string& name, int rank_count) {
  JoinOptions options;
  options.name = name;
  for (int rank = 0; rank < rank_count; ++rank) {
    options.carrier.ranks.push_back(static_cast<uint64_t>(rank));
  }
  options.carrier.timeout_ms = 30'000;
  options.carrier.transport = "tcp";
  options.place.job = name;
  options.place.store_host = "127.0.0.1";
  return options;
}

// Runs `body` on every rank, and tells what it threw ("" if it did not).
inline std::vector<std::string> run_ranks(JoinOptions options,
                                          const std::function<void(const BackendPointer&)>& body) {
  CarrierPlace& place = options.place;
  pleach_listen("127.0.0.1", &place.store_port, &place.listen_descriptor);
  std::vector<std::string> errors(options.carrier.ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(errors.size()); ++rank) {
    threads.emplace_back([&errors, &body, rank, own = options]() mutable {
      own.rank = own.place.rank = rank;
      own.place.listen_descriptor = rank == 0 ? own.place.listen_descriptor : 0;
      try {
        body(c10::make_intrusive<Backend>(Group::join(own, {})));
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(await_background(std::chrono::steady_clock::now() + std::chrono::seconds(30)));
  return errors;
}

// As run_ranks(), where none may fail.
inline void run_well(const JoinOptions& options,
                     const std::function<void(const BackendPointer&)>& body) {
  const std::vector<std::string> errors = run_ranks(options, body);
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    EXPECT_EQ(errors[rank], "") << "rank " << rank;
  }
}

inline bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Waits for a work that another thread aborts meanwhile; then tells that it is over. Throws what it
// ends with.
inline void wait_while_aborted(const c10::intrusive_ptr<c10d::Work>& work,
                               std::promise<void>& is_over) {
  std::thread aborts([&] { work->abort(); });
  try {
    work->wait(std::chrono::milliseconds(0));
  } catch (...) {
    aborts.join();
    is_over.set_value();
    throw;
  }
  aborts.join();
  is_over.set_value();
}

// c10d's options, asked for as asynchronous.
template <typename Options>
Options asynchronous() {
  Options options;
  options.asyncOp = true;
  return options;
}

}  // namespace pleach_torch
