// Communicator: one rank's end of a job; runs schedules on real buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport.h"

namespace pleach {

struct CommunicatorOptions {
  Rank rank;
  int32_t rank_count = 1;
  std::string transport = "tcp";
  std::shared_ptr<Store> store;
  std::string name = "world";                    // distinct communicators of a job differ in it
  Duration deadline = std::chrono::seconds(30);  // of every wait
  int32_t landing_places = 4;                    // per connection
  const Clock* clock = nullptr;                  // null: the steady clock
  std::unique_ptr<Transport> transport_override = nullptr;  // tests
};

// A schedule made ready to run: verified once, agreed on by all ranks, lowered per size.
class PreparedSchedule;

struct RunRequest {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;  // whole buffer [elements]
  int32_t segment_count = 1;
  // Sizes as Placement says, aligned to the element. In place: input == output is the whole buffer
  // (count elements) with the rank's shard, if it has one, at its place; a pointer to that shard
  // may stand for the whole's. Other overlaps are refused.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Record* record = nullptr;  // appended to when set
};

// One thread at a time. The first error poisons it: every later call fails at once with the same
// failure, on every rank, naming rank, operation and cause. Recovery: destroy and create a new one.
class Communicator {
 public:
  // Collective: returns when all ranks have connected to the store, or fails within the deadline.
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  virtual ~Communicator() = default;

  virtual Rank rank() const = 0;
  virtual int32_t rank_count() const = 0;

  // Collective: rank 0 gives the schedule, the others null; it is sent to all, verified on each and
  // its hash compared. Errors: kInvalidArgument with the first violation, kUnsupported: needs a
  // reducing switch.
  virtual Result<std::shared_ptr<const PreparedSchedule>> prepare(const Schedule* schedule) = 0;
  // Collective: all ranks call with the same schedule, type, op, count and segments, in one order.
  virtual Status run(const PreparedSchedule& schedule, const RunRequest& request) = 0;
  // Collective: all ranks enter before any leaves.
  virtual Status barrier() = 0;
  // Collective: leaves in order, so that no rank takes the others for lost.
  virtual Status close() = 0;
};

// As it runs, and records tell of it: on a grid of no more chunks than its transfers tell apart.
const Schedule& schedule_of(const PreparedSchedule& prepared);

}  // namespace pleach
