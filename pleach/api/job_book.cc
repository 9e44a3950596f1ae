#include "pleach/api/job_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "pleach/api/host.h"
#include "pleach/api/schedule_source.h"
#include "pleach/base/files.h"
#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/version.h"
#include "pleach/collective/rerooted.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/runtime/prepared_schedule.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

// What is planned, and for what.
struct Plan {
  Topology topology;
  BookOptions options;
};

Result<Plan> plan_for(const BookRequest& request, int32_t rank_count) {
  BookOptions options;
  options.planner.only_what_ranks_run = true;
  if (!request.topology.empty()) {
    options.planner = on_network(options.planner);
    PLEACH_ASSIGN(topology, load_topology(request.topology));
    return Plan{std::move(topology), std::move(options)};
  }
  const std::vector<int32_t> hosts =
      request.hosts.empty() ? spread_over_hosts(rank_count, 1) : request.hosts;
  PLEACH_CHECK(count_of(hosts) == rank_count, "each rank is on a host");
  const std::string transport =
      request.transport == kAutoTransport ? best_transport(hosts) : request.transport;
  const Result<HostNetwork> network = default_network(request.network);
  if (!network) {
    return prefixed("PLEACH_NETWORK", network.error());
  }
  PLEACH_ASSIGN(ranks, default_topology(transport, hosts, transport, *network));
  options.planner.simulation.reduce_bandwidth_bytes_per_s = ranks.reduce_bandwidth_bytes_per_s;
  if (*std::ranges::max_element(hosts) > 0) {
    options.planner = on_network(options.planner);
  }
  return Plan{std::move(ranks.topology), std::move(options)};
}

// What a plan follows from: another one has another name in the cache.
std::string cache_name(const Plan& plan, uint64_t code) {
  Fingerprint key;
  key.add(version());
  key.add(code);
  for (const Algorithm* algorithm : algorithms()) {  // those that others have added too
    key.add(algorithm->name);
    for (const OptionDescriptor& option : algorithm->options) {
      key.add(option.name);
      key.add(option.default_value);
    }
    for (const std::string& variant : algorithm->variants) {
      key.add(variant);
    }
  }
  key.add(plan.topology.fingerprint());
  key.add(plan.options.algorithm);
  key.add(plan.options.planner.model);
  key.add(plan.options.planner.least_segment_bytes);
  key.add(plan.options.planner.simulation.reduce_bandwidth_bytes_per_s.value_or(0));
  for (const int64_t size_bytes : plan.options.sizes_bytes) {
    key.add(size_bytes);
  }
  return fmt::format("{:016x}{}", key.value(), kBookExtension);
}

Result<Book> cached_book(const Plan& plan, const BookRequest& request) {
  namespace fs = std::filesystem;
  const fs::path folder = request.cache;
  const fs::path path = folder / cache_name(plan, request.code);
  if (Result<Book> known = read_book(path.string());
      known && known->topology_fingerprint == plan.topology.fingerprint()) {
    return known;
  }
  PLEACH_ASSIGN(book, plan_book(plan.topology, plan.options));
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  if (const Status written = write_book(book, path.string()); !written) {
    // The next job plans again.
  }
  return book;
}

// A book's file, or a schedule's.
Result<Book> read_plan(const std::string& path) {
  if (path.ends_with(kBookExtension)) {
    return read_book(path);
  }
  PLEACH_ASSIGN(schedule, obtain_schedule_without_routes(path));
  return book_of(std::move(schedule));
}

}  // namespace

BookRequest book_request(const EnvironmentLookup& lookup, std::string transport) {
  BookRequest request;
  request.transport = std::move(transport);
  request.file = lookup("PLEACH_BOOK").value_or("");
  request.source = "PLEACH_BOOK";
  request.network = lookup("PLEACH_NETWORK").value_or("");
  const std::string cache = lookup("XDG_CACHE_HOME").value_or("");
  const std::string home = lookup("HOME").value_or("");
  if (cache.starts_with('/')) {
    request.cache = cache + "/pleach";
  } else if (home.starts_with('/')) {
    request.cache = home + "/.cache/pleach";
  }
  return request;
}

std::string BookRequest::place() const {
  return file.empty() ? topology : source.empty() ? file : source + ": " + file;
}

Result<Book> obtain_book(const BookRequest& request, int32_t rank_count) {
  Result<Book> book = Book{};
  if (!request.file.empty()) {
    book = read_plan(request.file);
    if (!book && !request.source.empty()) {
      return prefixed(request.source, book.error());
    }
  } else {
    PLEACH_ASSIGN(plan, plan_for(request, rank_count));
    book =
        request.cache.empty() ? plan_book(plan.topology, plan.options) : cached_book(plan, request);
  }
  if (book && book->rank_count != rank_count) {
    return invalid(request.place(), fmt::format("plans for {} ranks, but there are {}",
                                                book->rank_count, rank_count));
  }
  return book;
}

Book book_of(std::shared_ptr<const Schedule> schedule, int32_t segment_count) {
  Book book;
  book.topology_fingerprint = schedule->provenance.topology_fingerprint;
  book.rank_count = schedule->rank_count();
  book.entries = {{schedule->collective, INT64_MAX, segment_count, 0}};
  book.schedules = {std::move(schedule)};
  return book;
}

Result<std::unique_ptr<PreparedBook>> PreparedBook::prepare(
    Communicator& communicator, const std::function<Result<Book>()>& obtain) {
  auto prepared = std::make_unique<PreparedBook>();
  const auto pack = [&]() -> Result<std::string> {
    PLEACH_ASSIGN(book, obtain());
    return pack_book(book);
  };
  const auto unpack =
      [&](const std::string& bytes) -> Result<std::vector<std::shared_ptr<const Schedule>>> {
    PLEACH_SET(prepared->book_, unpack_book(bytes, "book of rank 0"));
    return prepared->book_.schedules;
  };
  PLEACH_SET(prepared->prepared_, communicator.prepare_all(pack, unpack));
  return prepared;
}

Result<PreparedBook::Choice> PreparedBook::choose(CollectiveKind collective, int64_t size_bytes,
                                                  Rank root) const {
  const Book::Entry* entry = book_.find(collective, size_bytes);
  if (entry == nullptr) {
    return invalid(fmt::format("the book that the job runs by has no {}", to_text(collective)));
  }
  const Schedule& planned = *book_.schedules[at(entry->schedule)];
  const auto& prepared = prepared_[at(entry->schedule)];
  if (!has_root(collective) || planned.root == root) {
    return Choice{prepared, entry->segment_count};
  }
  const std::scoped_lock lock(mutex_);
  auto& known = rerooted_[{entry->schedule, root.value}];
  if (known == nullptr) {
    PLEACH_ASSIGN(other, rerooted(planned, root));
    PLEACH_SET(known, PreparedSchedule::prove(std::move(other), prepared->preparer()));
  }
  return Choice{known, entry->segment_count};
}

}  // namespace pleach
