// PreparedSchedule: a schedule that a communicator's ranks have agreed on, ready to run.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/order.h"
#include "pleach/collective/pieces.h"
#include "pleach/collective/schedule.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/progress.h"
#include "pleach/runtime/run_buffers.h"

namespace pleach {

// The communicator that a schedule is prepared for, as one of its ranks sees it.
struct Preparer {
  uint64_t channel = 0;
  Rank rank;
  std::vector<Rank> job_ranks;  // by rank
  int64_t place_bytes = 0;
};

// Lowered once for each kind of request. Thread safe.
class PreparedSchedule {
 public:
  // Kinds of requests that are kept ready; of more, those that were asked for last.
  static constexpr std::size_t kMostKinds = 512;

  // Proves a schedule; every rank comes to the same conclusion.
  //   errors  kInvalidArgument with the first violation; kUnsupported: needs a reducing switch
  static Result<std::shared_ptr<const PreparedSchedule>> prove(Schedule schedule,
                                                               const Preparer& preparer);

  PreparedSchedule(Schedule schedule, Order order, Preparer preparer);

  const Schedule& schedule() const { return schedule_; }
  const Preparer& preparer() const { return preparer_; }
  uint64_t hash() const { return hash_; }

  // Checks the request, and finds a state for it, whose spec says what is to run, but for how long:
  // the first of its kind allocates, later ones do not. Segments are cut until each fits a place.
  // What travels wider than it is given is widened.
  //   errors  kInvalidArgument; kUnsupported: a message of so many chunks fits no place
  Result<std::shared_ptr<CollectiveState>> plan(const RunRequest& request) const;

 private:
  // What requests of one kind have in common.
  struct Key {
    ElementType type = ElementType::kFloat32;
    ElementType wire = ElementType::kFloat32;  // what travels
    ReduceOp op = ReduceOp::kSum;
    int64_t count = 0;
    int32_t segment_count = 1;  // as asked for
    std::span<const int64_t> counts = {};
    std::span<const int64_t> receive_counts = {};
    std::strong_ordering operator<=>(const Key& other) const;
    bool operator==(const Key& other) const;
  };
  // A schedule cut into the pieces of a kind.
  struct Pieced {
    PiecedSchedule cut;
    Order order;
  };
  struct Kind {
    std::vector<int64_t> counts = {};           // the key's, and then its receive_counts
    std::unique_ptr<const Pieced> pieced = {};  // null: it is in one piece
    BufferNeeds needs;
    ReducedParts reduced = {};
    int32_t segment_count = 1;
    std::vector<int64_t> part_counts = {};  // as ProgramOptions has them
    std::vector<int32_t> part_segments = {};
    uint64_t fingerprint = 0;
    std::array<std::optional<OperationPool>, 2> pools = {};  // buffers apart; in place
    uint64_t last_use = 0;                                   // the larger, the later
    bool is_in_use() const;
  };
  Result<std::vector<int64_t>> part_counts(const Key& key) const;
  bool has_pieces(const Key& key) const;
  Result<std::unique_ptr<const Pieced>> cut_pieces(const Key& key) const;
  Result<Placement> place(const Key& key, const Kind& kind) const;
  int64_t longest_message(const Key& key, const Placement& placement) const;
  Result<int32_t> segments(const Key& key, int64_t elements) const;
  Status cut(const Key& key, const Placement& placement, Kind& kind) const;
  uint64_t fingerprint(const Key& key, const Kind& kind) const;
  Status check_in_place(const Kind& kind) const;
  Result<Kind> make_kind(const Key& key) const;
  Result<Kind*> find_kind(const Key& key) const;
  void forget_oldest() const;
  Result<OperationPool*> find_pool(Kind& kind, int64_t count, bool in_place) const;
  void specify(RunSpec& spec, const RunRequest& request, const Kind& kind,
               const RunBuffers& buffers) const;
  void run_wide(CollectiveState& state, ElementType type, const Kind& kind) const;

  Schedule schedule_;
  Order order_;
  Preparer preparer_;
  uint64_t hash_;
  // Of the largest message, and the most chunks of one.
  int64_t most_weight_ = 0;
  int64_t most_chunks_ = 1;
  bool moves_directly_ = false;  // an all_to_all
  // A cache, guarded by its mutex.
  struct Kinds {
    std::mutex mutex;
    std::map<Key, Kind> all;
    std::pair<const Key, Kind>* last = nullptr;
    uint64_t use_count = 0;
  };
  mutable Kinds kinds_;
};

}  // namespace pleach
