// Collectives: a communicator that knows itself which schedule does what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/communicator.h"

namespace pleach {

struct CollectiveRequest {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  Rank root = {0};  // where the collective has one
  // Elements: of the whole buffer of all_reduce, broadcast and reduce; else of one rank's part, of
  // which the whole has as many as there are ranks.
  int64_t count = 0;
  // As RunRequest's.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// Thread safe as its communicator is.
class Collectives {
 public:
  // Collective: agrees on a schedule for every collective and root. Later calls agree on nothing.
  //   errors  those of Communicator::prepare, and of planning on rank 0
  static Result<std::unique_ptr<Collectives>> create(std::unique_ptr<Communicator> communicator);

  // As Communicator's.
  //   errors  kInvalidArgument: no such root, a count that is negative or too large. Then nothing
  //           has happened
  Status run(const CollectiveRequest& request);
  Result<Operation> start(const CollectiveRequest& request);

  Communicator& communicator() { return *communicator_; }
  // This rank in the job, as messages name it.
  Rank job_rank() const { return communicator_->job_ranks()[communicator_->rank().index()]; }

 private:
  struct Chosen {
    const PreparedSchedule* schedule = nullptr;
    RunRequest request;
  };

  explicit Collectives(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}
  Status prepare();
  Result<Chosen> choose(const CollectiveRequest& request) const;

  const std::unique_ptr<Communicator> communicator_;
  using Key = std::pair<CollectiveKind, int32_t>;  // of one root
  std::map<Key, std::shared_ptr<const PreparedSchedule>> prepared_;
};

}  // namespace pleach
