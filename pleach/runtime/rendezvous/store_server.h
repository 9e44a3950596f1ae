// StoreServer: the rank-0 end of a TCP store.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/epoch.h"
#include "pleach/runtime/rendezvous/secret.h"

namespace pleach {

struct StoreServerOptions {
  int32_t rank_count = 1;
  std::string job;
  JobSecret secret;
  Duration deadline = std::chrono::seconds(30);
  std::function<void()> on_complete = {};  // called when all ranks have come, or the
                                           // server ends before
  // The job has failed before: all who come are told, and the end of the server waits for none.
  std::optional<Failure> failure = {};
};

// How often the server pings, and how long a silent end is waited for. Half the deadline, so that
// all ranks know of a lost one within it. A thread that wakes as often beats a JobClock, which
// reaches a few pings further.
Duration ping_interval(Duration deadline);
Duration clock_reach(Duration deadline);
Duration silence_limit(Duration deadline);

// Serves on its own thread until it is stopped; then until every rank has said goodbye or has heard
// of the job's failure, at most for the patience. Where that is less than the deadline the ranks
// that are left then hear a goodbye. Bytes that are no protocol cost their sender the
// connection and nothing else.
class StoreServer {
 public:
  // `listener` is a listening, non-blocking socket.
  static Result<std::unique_ptr<StoreServer>> start(Descriptor listener,
                                                    StoreServerOptions options);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  // Stops it, with the deadline as patience unless stop() was called.
  ~StoreServer();
  // Ends within about the patience, at most the deadline. A caller that is interrupted waits no
  // longer.
  void stop(Duration patience);
  // Stops it for a failure of the job, which all who have come hear, and who comes within a second.
  // Blocks until all have heard it, that second at most.
  void fail(const Failure& failure);
  // The first failure of the job, if any. By any thread.
  std::optional<Failure> first_failure() const;

 private:
  class Loop;
  StoreServer();
  std::unique_ptr<Loop> loop_;
};

}  // namespace pleach
