// Book: what a job runs for every collective and size, planned once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct Book {
  // What a class of sizes takes.
  struct Entry {
    CollectiveKind collective = CollectiveKind::kAllReduce;
    int64_t up_to_bytes = INT64_MAX;  // whole buffer; beyond those of the entry before
    int32_t segment_count = 1;
    int32_t schedule = 0;  // index into schedules
    bool operator==(const Entry&) const = default;
  };

  std::string topology;               // its name
  uint64_t topology_fingerprint = 0;  // of what it was planned for
  int32_t rank_count = 1;
  // By collective and size; the last of each collective is of INT64_MAX. What nothing does has
  // none.
  std::vector<Entry> entries;
  // Of all ranks; those with a root have root 0 (collective/rerooted.h).
  std::vector<std::shared_ptr<const Schedule>> schedules;

  // Null: the collective is not in the book. size_bytes ≥ 0.
  const Entry* find(CollectiveKind collective, int64_t size_bytes) const;
};

struct BookOptions {
  std::string algorithm = kAutoAlgorithm;  // or any other source that make_planner() takes
  PlannerOptions planner = {.segment_count = std::nullopt, .wants_certificate = false};
  std::vector<int64_t> sizes_bytes = book_sizes();  // that are planned: ascending, > 0

  // The powers of two from 256 B to 256 MiB.
  static std::vector<int64_t> book_sizes();
};

// Plans every collective that the planner does, with root 0, at every size; what lies between two
// sizes takes what the one nearer by ratio does. For one rank: schedules of nothing.
//   errors  kInvalidArgument: sizes that do not ascend; those of the planner
Result<Book> plan_book(const Topology& topology, const BookOptions& options = {});

// Errors: kInvalidArgument: they are none, below 1, or do not ascend.
Status check_book_sizes(std::span<const int64_t> sizes_bytes);

// The same of what `choose` takes, for each collective in turn and each size of it; nothing, of
// all its sizes: the collective is not in the book.
//   errors  those of check_book_sizes() and of `choose`
using ChooseForBook = std::function<Result<std::optional<Choice>>(const ScheduleRequest&)>;
Result<Book> make_book(const Topology& topology, std::span<const int64_t> sizes_bytes,
                       const ChooseForBook& choose);

// The book as bytes: a head of text lines (format and library version, topology, a hash over the
// rest), the entries, and the schedules in the binary format.
Result<std::string> pack_book(const Book& book);
// What pack_book() of this version of the library has packed. Everything is checked but the proofs
// of the schedules. `where` begins errors.
//   errors  kInvalidArgument: no book, another version of the format or the library, cut short or
//           changed since, entries or schedules that are out of order or do not fit each other
Result<Book> unpack_book(std::string_view bytes, const std::string& where);

// A file of these bytes, which is whole or not there. Errors: kIo; those of unpack_book.
Status write_book(const Book& book, const std::string& path);
Result<Book> read_book(const std::string& path);

}  // namespace pleach
