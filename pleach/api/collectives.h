// Collectives: a communicator that knows itself which schedule does what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "pleach/api/job_book.h"
#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/communicator.h"

namespace pleach {

struct CollectiveRequest {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::optional<ElementType> wire = {};  // as RunRequest's
  Rank root = {0};                       // where the collective has one
  // Elements: of the whole buffer of all_reduce, broadcast and reduce; else of one rank's part, of
  // which the whole has as many as there are ranks.
  int64_t count = 0;
  // In place of `count`, a number for each rank, or of each piece for each rank; as RunRequest's.
  std::span<const int64_t> counts = {};
  std::span<const int64_t> receive_counts = {};
  // As RunRequest's.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::optional<Duration> deadline = {};
};

// Thread safe as its communicator is.
class Collectives {
 public:
  // Collective: agrees on a book, which rank 0 obtains. Later calls agree on nothing. Of the
  // request, `hosts` are those of all ranks of the job.
  //   errors  those of obtain_book() on rank 0, and of PreparedBook::prepare
  static Result<std::unique_ptr<Collectives>> create(std::unique_ptr<Communicator> communicator,
                                                     BookRequest request);

  // As Communicator's.
  //   errors  kInvalidArgument: no such root, a count that is negative or too large, counts that
  //           the collective has not, or beside a count, a wire that the type or collective has
  //           not, a collective that the book lacks.
  //           Then nothing has happened
  Status run(const CollectiveRequest& request);
  Result<Operation> start(const CollectiveRequest& request);

  Communicator& communicator() { return *communicator_; }
  // This rank in the job, as errors name it.
  Rank job_rank() const { return communicator_->job_ranks()[communicator_->rank().index()]; }

  // How its book was asked for.
  const BookRequest& book_request() const { return book_request_; }

 private:
  struct Chosen {
    std::shared_ptr<const PreparedSchedule> schedule;
    RunRequest request;
  };

  Collectives(std::unique_ptr<Communicator> communicator, BookRequest request)
      : communicator_(std::move(communicator)), book_request_(std::move(request)) {}
  Result<Chosen> choose(const CollectiveRequest& request) const;

  const std::unique_ptr<Communicator> communicator_;
  const BookRequest book_request_;
  std::unique_ptr<const PreparedBook> book_;
};

}  // namespace pleach
