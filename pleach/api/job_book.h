// What a job runs where nobody names an algorithm: its book, from a file, a cache or a planner.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/planning/book.h"
#include "pleach/planning/code_mark.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/launch/launch.h"
#include "pleach/runtime/transport_choice.h"

namespace pleach {

// What a book's file ends in; others hold schedules.
inline constexpr std::string_view kBookExtension = ".book";

struct BookRequest {
  std::string transport = kAutoTransport;
  // Where each rank is, as TransportChoice has it; empty: all are on one host.
  std::vector<int32_t> hosts = {};
  std::string topology = {};  // to plan for, a spec; empty: what is known of the transport
  std::string network = {};   // what a host's link to the others carries: default_network()
  std::string file = {};      // a book or a schedule, in place of planning
  std::string source = {};  // who named the file, as errors say it: "PLEACH_BOOK"; empty: all know
  std::string cache = {};   // a folder of books; empty: none
  uint64_t code = code_mark();  // that plans: books of other code are left alone

  // Where what is wrong with it comes from: "PLEACH_BOOK: FILE", or the topology.
  std::string place() const;
};

// With the file that PLEACH_BOOK names, the network that PLEACH_NETWORK tells, and the cache
// $XDG_CACHE_HOME/pleach or ~/.cache/pleach.
BookRequest book_request(const EnvironmentLookup& lookup, std::string transport);

// Reads, or plans and keeps in the cache, what `rank_count` ranks run. A cache that cannot be read
// or written is none; an entry that is damaged, or of something else, is replaced.
//   errors  those of the file, of parse_topology and of planning; kInvalidArgument: the file or the
//           topology is for another number of ranks
Result<Book> obtain_book(const BookRequest& request, int32_t rank_count);

// A book of one schedule, for all sizes.
Book book_of(std::shared_ptr<const Schedule> schedule, int32_t segment_count = 1);

// A book that a communicator's ranks have agreed on. Thread safe.
class PreparedBook {
 public:
  struct Choice {
    std::shared_ptr<const PreparedSchedule> schedule;
    int32_t segment_count = 1;
  };

  // Collective: rank 0 obtains a book, which is sent to all; every rank proves its schedules, and
  // their hashes are compared.
  //   errors  those of `obtain` and of Communicator::prepare_all
  static Result<std::unique_ptr<PreparedBook>> prepare(Communicator& communicator,
                                                       const std::function<Result<Book>()>& obtain);

  const Book& book() const { return book_; }
  // Agrees on nothing: equal calls get equal schedules on all ranks. The first with another root
  // than the book's takes as long as a proof.
  //   errors  kInvalidArgument: the book has no such collective, there is no such root
  Result<Choice> choose(CollectiveKind collective, int64_t size_bytes, Rank root = {0}) const;

 private:
  Book book_;
  std::vector<std::shared_ptr<const PreparedSchedule>> prepared_;  // as the book's
  mutable std::mutex mutex_;
  // By schedule and root; guarded by it.
  mutable std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const PreparedSchedule>> rerooted_;
};

}  // namespace pleach
