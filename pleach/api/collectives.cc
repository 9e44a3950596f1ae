#include "pleach/api/collectives.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "pleach/collective/placement.h"
#include "pleach/runtime/transport_choice.h"

namespace pleach {
namespace {

// The class of sizes that a request belongs to, by what travels. Blocks of different sizes, which
// nobody knows all of, take that of the largest: they go straight to where they belong there.
int64_t size_class_bytes(const CollectiveRequest& request, int64_t whole) {
  int64_t size_bytes = 0;
  for (const int64_t count : request.counts) {
    whole += count;  // no more than kMostElements
  }
  if (!request.receive_counts.empty() ||
      __builtin_mul_overflow(whole, element_bytes(request.wire.value_or(request.type)),
                             &size_bytes)) {
    return INT64_MAX;
  }
  return size_bytes;
}

// Of one rank's part, or all together: what bytes of any type can still count.
constexpr int64_t kMostElements = int64_t{1} << 60;

std::string why_counts_are_wrong(const CollectiveRequest& request, int32_t rank_count) {
  if (request.count < 0) {
    return fmt::format("a count of {} elements is negative", request.count);
  }
  const bool has_counts = !request.counts.empty() || !request.receive_counts.empty();
  if (has_counts && request.count != 0) {
    return fmt::format("a count of {} elements, and counts for each rank too", request.count);
  }
  if (has_counts && !has_parts(request.collective)) {
    return "it has no parts, and takes no counts for each rank";
  }
  if (!request.receive_counts.empty() && request.collective != CollectiveKind::kAllToAll) {
    return "it takes no receive_counts: all_to_all does";
  }
  const bool may_have_pieces =
      gives_shards(request.collective) || ends_with_shards(request.collective);
  for (const std::span<const int64_t> counts : {request.counts, request.receive_counts}) {
    if (std::ssize(counts) % rank_count != 0) {
      return fmt::format("counts for {} ranks, but there are {}", counts.size(), rank_count);
    }
    if (std::ssize(counts) > rank_count && !may_have_pieces) {
      return "it has no shards that could lie in pieces";
    }
    int64_t whole = 0;
    for (const int64_t count : counts) {
      if (count < 0) {
        return fmt::format("a count of {} elements for one rank is negative", count);
      }
      if (count > kMostElements - whole) {
        return fmt::format("counts of {} elements and {} more are too many", whole, count);
      }
      whole += count;
    }
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<Collectives>> Collectives::create(std::unique_ptr<Communicator> communicator,
                                                         BookRequest request) {
  std::unique_ptr<Collectives> collectives(
      new Collectives(std::move(communicator), std::move(request)));
  Communicator& agreeing = *collectives->communicator_;
  BookRequest own = collectives->book_request_;
  own.hosts = hosts_of(own.hosts, agreeing.job_ranks());
  Result<std::unique_ptr<PreparedBook>> book =
      PreparedBook::prepare(agreeing, [&] { return obtain_book(own, agreeing.rank_count()); });
  if (!book) {
    // All ranks have been told the same, and leave together: the job goes on.
    static_cast<void>(agreeing.close());
    return book.error();
  }
  collectives->book_ = std::move(book).value();
  return collectives;
}

Result<Collectives::Chosen> Collectives::choose(const CollectiveRequest& request) const {
  const int32_t rank_count = communicator_->rank_count();
  const auto refuse = [&](const std::string& why) {
    return invalid(
        fmt::format("rank {}, {}: {}", job_rank().value, to_text(request.collective), why));
  };
  if (has_root(request.collective) &&
      (request.root.value < 0 || request.root.value >= rank_count)) {
    return refuse(fmt::format("root {} is none of {} ranks", request.root.value, rank_count));
  }
  if (const std::string why = why_counts_are_wrong(request, rank_count); !why.empty()) {
    return refuse(why);
  }
  if (const Status may =
          check_wire(request.collective, request.type, request.wire.value_or(request.type));
      !may) {
    return refuse(may.error().message);
  }
  int64_t whole = request.count;
  if (has_parts(request.collective) &&
      __builtin_mul_overflow(request.count, int64_t{rank_count}, &whole)) {
    return refuse(
        fmt::format("{} elements for each of {} ranks are too many", request.count, rank_count));
  }
  PLEACH_ASSIGN(choice, book_->choose(request.collective, size_class_bytes(request, whole),
                                      has_root(request.collective) ? request.root : Rank{0}));
  return Chosen{std::move(choice.schedule),
                {.type = request.type,
                 .op = reduces(request.collective) ? request.op : ReduceOp::kSum,
                 .wire = request.wire,
                 .count = whole,
                 .counts = request.counts,
                 .receive_counts = request.receive_counts,
                 .segment_count = choice.segment_count,
                 .input = request.input,
                 .output = request.output,
                 .deadline = request.deadline}};
}

Status Collectives::run(const CollectiveRequest& request) {
  PLEACH_ASSIGN(chosen, choose(request));
  return communicator_->run(*chosen.schedule, chosen.request);
}

Result<Operation> Collectives::start(const CollectiveRequest& request) {
  PLEACH_ASSIGN(chosen, choose(request));
  return communicator_->start(*chosen.schedule, chosen.request);
}

}  // namespace pleach
