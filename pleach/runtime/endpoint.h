// Endpoint: one process's (or thread's) end of a job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/progress.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"

namespace pleach {

struct EndpointOptions {
  Rank rank;
  int32_t rank_count = 1;
  std::string transport = "tcp";
  std::shared_ptr<Store> store;
  std::string name = "job";                      // distinct endpoints of a rank differ in it
  Duration deadline = std::chrono::seconds(30);  // of every wait
  const Clock* clock = nullptr;                  // null: the steady clock
  std::unique_ptr<Transport> transport_override = nullptr;  // tests
};

// What all communicators of a rank share: its transport, its store, and what moves them. A
// communicator is a view of it: a channel of its own. Thread safe.
class Endpoint {
 public:
  // Errors: kInvalidArgument: no such rank, no store; kNotFound: no such transport; its own.
  static Result<std::shared_ptr<Endpoint>> create(EndpointOptions options);

  Rank rank() const { return options_.rank; }
  int32_t rank_count() const { return options_.rank_count; }
  Store& store() const { return *options_.store; }
  Duration deadline() const { return options_.deadline; }
  Progress& progress() { return *progress_; }
  // How many communicators of that kind have been opened here before.
  int64_t count_opening(uint64_t kind);

 private:
  explicit Endpoint(EndpointOptions options) : options_(std::move(options)) {}
  static void destroy(Endpoint* endpoint);
  Status open();

  EndpointOptions options_;
  SteadyClock steady_clock_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Progress> progress_;
  std::mutex mutex_;
  std::map<uint64_t, int64_t> openings_;  // guarded by it
};

}  // namespace pleach
