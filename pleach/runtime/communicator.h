// Communicator: some or all of a job's ranks, as one of them sees them; runs schedules on buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "pleach/runtime/endpoint.h"
#include "pleach/runtime/messages.h"
#include "pleach/runtime/operation.h"

namespace pleach {

struct CommunicatorOptions {
  // For errors. Ranks create communicators of one name and the same ranks in one order.
  std::string name = "world";
  // The job's ranks that it is of, in the order of their ranks in it; empty: all of the epoch. The
  // others have no part in it.
  std::vector<Rank> ranks = {};
  // A failure of it, an abort or a timeout too, ends no other communicator; it cannot be shrunk.
  // Without effect if the store has no scopes.
  bool fails_alone = false;
  int32_t landing_places = 4;                 // per connection, [1, kMostPlaces]
  int64_t place_bytes = int64_t{256} * 1024;  // room of each; see RunRequest::segment_count
  // The same of what messages() moves. All four are the same on all ranks.
  int32_t message_places = 8;
  int64_t message_place_bytes = int64_t{256} * 1024;
};

// A schedule made ready to run: verified once, agreed on by all ranks, lowered per request.
class PreparedSchedule;

struct RunRequest {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // the type has it: check_reduction()
  // What travels, and what partial sums are kept in: float32, where a half type is reduced, which
  // is rounded once then, when all is folded. None: the type. It runs in a float32 copy of the
  // whole buffer that the schedule keeps, and reads the input before it starts.
  std::optional<ElementType> wire = {};
  int64_t count = 0;  // whole buffer [elements]
  // In place of `count`, where ranks have parts of different sizes: of each rank's, the same on all
  // ranks; parts lie one behind the other. Where there are shards, counts of several pieces, one
  // behind the other, make one run of as many collectives (collective/pieces.h). An all_to_all's
  // are what this rank sends to each rank, and what it receives from each: of a pair they must
  // agree, and nobody else knows them. It takes a schedule that sends each block straight from its
  // source to its target.
  std::span<const int64_t> counts = {};
  std::span<const int64_t> receive_counts = {};  // all_to_all
  int32_t segment_count = 1;  // at least; as many as it takes for every segment to fit a place
  // Sizes as Placement says, aligned to the element. In place: input == output is the whole buffer
  // (count elements) with the rank's shard, if it has one, at its place (or its places, in pieces);
  // a pointer to a shard in one piece may stand for the whole's. An all_to_all with counts is in
  // place where each rank receives from each as much as it sends there. Other overlaps are refused.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Record* record = nullptr;  // appended to when set
  // How long this rank waits for others to begin, and then while nothing moves. None: the
  // endpoint's.
  std::optional<Duration> deadline = {};
};

// Whether what is given as `type` may travel as `wire`.
//   errors  kInvalidArgument: another type, but float32 in place of a half type that is reduced
Status check_wire(CollectiveKind collective, ElementType type, ElementType wire);

// Thread safe; but what is collective is called in one order on all ranks, so threads that call it
// agree on theirs. The first error ends the epoch: every later call, of any communicator that was
// made in it, fails at once with the same failure on every rank, naming rank, operation and cause.
// Those who live may go on in the next epoch: shrink().
class Communicator {
 public:
  // Collective: returns when all ranks have come, or fails within the endpoint's deadline.
  static Result<std::unique_ptr<Communicator>> create(std::shared_ptr<Endpoint> endpoint,
                                                      CommunicatorOptions options = {});
  // Ends what is in flight. One that was not closed is a failure of this rank.
  virtual ~Communicator() = default;

  // In this communicator.
  virtual Rank rank() const = 0;
  virtual int32_t rank_count() const = 0;
  // The job's ranks, by rank in this communicator: errors name ranks so.
  virtual const std::vector<Rank>& job_ranks() const = 0;

  // Collective: a communicator for each colour ≥ 0, of the ranks that give it, ordered by key and
  // then by their rank here. Null for those that give a negative one.
  virtual Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key) = 0;
  // Collective among all who live, of the whole job, after a failure: a communicator of those of
  // its ranks that take part in the next epoch, in their order here. Whatever else is in flight
  // over the endpoint ends with the failure. Where more than one communicator is to go on, all
  // ranks shrink them in one order; the first to be shrunk waits for all who live.
  //   errors  kInvalidArgument: nothing has failed; kTimeout naming who lives and did not come
  //           within the deadline, kPeerLost with a failure of the next epoch: call it again, on
  //           any of the communicators; kPeerLost: this rank is out, or rank 0 was lost, and the
  //           store with it
  virtual Result<std::unique_ptr<Communicator>> shrink() = 0;

  // Collective: rank 0 gives the schedule, the others null; it is sent to all, verified on each and
  // its hash compared. Errors: kInvalidArgument with the first violation, kUnsupported: needs a
  // reducing switch.
  Result<std::shared_ptr<const PreparedSchedule>> prepare(const Schedule* schedule);
  // The same of several, in one round: what rank 0's `pack` gives is sent to all, and each makes
  // the schedules of it by `unpack`.
  using Pack = std::function<Result<std::string>()>;
  using Unpack =
      std::function<Result<std::vector<std::shared_ptr<const Schedule>>>(const std::string& bytes)>;
  virtual Result<std::vector<std::shared_ptr<const PreparedSchedule>>> prepare_all(
      const Pack& pack, const Unpack& unpack) = 0;
  // Collective: all ranks call with the same schedule, type, op, counts and segments, in one order
  // with their other runs and starts. Wakes no other thread. Of a small collective a rank that only
  // sends does not wait for its peers: that they run something else a later call tells, the next
  // one that waits for them or finds what they have sent, close() at the latest.
  virtual Status run(const PreparedSchedule& schedule, const RunRequest& request) = 0;
  // As run(), but returns at once. Several may be in flight; they may be waited for in any order,
  // also before those of other communicators. A wait may last until all ranks have started that
  // operation, and made progress since: by waiting, or by their background threads.
  virtual Result<Operation> start(const PreparedSchedule& schedule, const RunRequest& request) = 0;
  // Collective, an operation as those of run(): all ranks enter before any leaves.
  //   deadline  as a RunRequest's
  virtual Status barrier(std::optional<Duration> deadline = std::nullopt) = 0;
  // As barrier(), but returns at once: it is done when all ranks have started it.
  virtual Result<Operation> start_barrier(std::optional<Duration> deadline = std::nullopt) = 0;
  // Sends and receives, between its ranks.
  virtual Messages& messages() = 0;
  // Collective: leaves in order, so that no rank takes the others for lost.
  //   errors  kInvalidArgument: something is in flight, and goes on; the ranks have run unlike
  //           operations
  virtual Status close() = 0;
  // Ends the epoch now, with all that is in flight or waited for, on every rank: "rank 2 aborted
  // communicator 'world': REASON". From any thread or callback. Nothing, where it is closed or the
  // epoch has failed already.
  virtual void abort(std::string_view reason) = 0;
};

// As it runs, and records tell of it: on a grid of no more chunks than its transfers tell apart.
const Schedule& schedule_of(const PreparedSchedule& prepared);

}  // namespace pleach
