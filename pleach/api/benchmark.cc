#include "pleach/api/benchmark.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <optional>
#include <span>

#include "pleach/api/job_book.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/base/value_range.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/reference.h"
#include "pleach/report/plan.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/rendezvous/agreement.h"

namespace pleach {
namespace {

constexpr std::size_t kMostSizes = 1000;
constexpr ValueRangeForm kSizeRange = {.parse_value = parse_size_bytes,
                                       .may_be_single = true,
                                       .whole_factor = true,
                                       .order = ": sizes are at least 1 and ascend"};

}  // namespace

Result<std::vector<int64_t>> parse_sizes(std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string_view piece : split(text, ',')) {
    PLEACH_ASSIGN(range, parse_value_range(piece, kSizeRange));
    sizes.insert(sizes.end(), range.begin(), range.end());
    if (sizes.size() > kMostSizes) {
      return invalid(fmt::format("{} gives more than {} sizes", pleach::quoted(text), kMostSizes));
    }
  }
  return sizes;
}

int64_t benchmark_memory_bytes(const BenchmarkOptions& options) {
  const auto largest = std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end());
  const bool is_wide = options.wire.value_or(options.type) != options.type;
  const int64_t buffers = (options.out_of_place ? 2 : 1) + (is_wide ? 2 : 0);
  return largest == options.sizes_bytes.end() ? 0 : *largest * buffers * options.in_flight;
}

namespace {

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

// What must be the same on all ranks, as "key=value" words.
std::string text_of(const BenchmarkOptions& options) {
  std::vector<std::string> sizes;
  for (const int64_t size_bytes : options.sizes_bytes) {
    sizes.push_back(std::to_string(size_bytes));
  }
  return fmt::format(
      "sizes={} iterations={} warmup={} dtype={} wire={} op={} in_flight={} check={} "
      "out_of_place={} "
      "in_place={} peer_memory={} seed={}",
      join(sizes, ","), options.iterations, options.warmup_iterations, to_text(options.type),
      to_text(options.wire.value_or(options.type)), to_text(options.op), options.in_flight,
      options.check, options.out_of_place, options.in_place, options.peer_memory, options.seed);
}

// One rank's way through the benchmark.
class Runner {
 public:
  Runner(const BenchmarkJob& job, const BenchmarkOptions& options) : job_(job), options_(options) {}

  Result<BenchmarkReport> run();

 private:
  Status connect();
  Status agree();
  Status introduce();
  Result<BenchmarkRow> measure(int64_t size_bytes);
  Result<Measurement> measure_place(const PreparedBook::Choice& choice, int64_t count,
                                    bool in_place);
  Status repeat(const PreparedBook::Choice& choice, std::span<const RunRequest> requests,
                int32_t iterations);
  Result<std::vector<std::string>> gather(std::string value);
  Result<bool> agree_to_go_on(bool goes_on);
  GroupOfRanks group() const { return {*job_.store, job_.rank, job_.rank_count, job_.deadline}; }

  const BenchmarkJob& job_;
  const BenchmarkOptions& options_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<PreparedBook> book_;
  BenchmarkReport report_;
  int64_t gather_count_ = 0;
};

// Every rank's value, on rank 0; elsewhere nothing.
Result<std::vector<std::string>> Runner::gather(std::string value) {
  const std::string name = fmt::format("{}/benchmark/{}", job_.name, gather_count_++);
  return pleach::gather(group(), name, std::move(value));
}

Status Runner::connect() {
  PLEACH_ASSIGN(choice,
                choose_transport(group(), job_.name + "/benchmark/transport", job_.transport));
  EndpointOptions options;
  options.rank = job_.rank;
  options.rank_count = job_.rank_count;
  options.transport = choice.transport;
  options.hosts = choice.hosts;
  options.store = job_.store;
  options.name = job_.name;
  options.deadline = job_.deadline;
  PLEACH_ASSIGN(endpoint, Endpoint::create(std::move(options)));
  PLEACH_SET(communicator_,
             Communicator::create(std::move(endpoint),
                                  {.name = job_.name, .landing_places = job_.landing_places}));
  PLEACH_SET(book_, PreparedBook::prepare(*communicator_, [&] { return job_.plan(choice); }));
  report_.transport = choice.transport;
  return ok();
}

// Refuses a rank that was started with other options than rank 0.
Status Runner::agree() {
  PLEACH_ASSIGN(verdict, pleach::agree(group(), job_.name + "/benchmark/options", text_of(options_),
                                       "rank {} was started with {}, rank 0 with {}"));
  return verdict;
}

// Whether rank 0 goes on.
Result<bool> Runner::agree_to_go_on(bool goes_on) {
  const std::string name = fmt::format("{}/benchmark/row/{}", job_.name, std::ssize(report_.rows));
  const auto produce = [&]() -> Result<std::string> { return std::string(goes_on ? "yes" : "no"); };
  PLEACH_ASSIGN(word, broadcast(group(), name, produce));
  PLEACH_ASSIGN(said, std::move(word));
  return said == "yes";
}

Status Runner::introduce() {
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0) {
    host = {"unknown"};
  }
  PLEACH_ASSIGN(lines, gather(fmt::format("{} {}", getpid(), host.data())));
  for (std::size_t rank = 0; rank < lines.size(); ++rank) {
    const std::size_t space = lines[rank].find(' ');
    PLEACH_ASSIGN(process, parse_integer(std::string_view(lines[rank]).substr(0, space), "process",
                                         0, INT64_MAX));
    report_.ranks.push_back({static_cast<int32_t>(rank), process, lines[rank].substr(space + 1)});
  }
  const Book& book = book_->book();
  if (book.entries.empty()) {
    return invalid("the book is empty");
  }
  const Schedule& first = *book.schedules[at(book.entries.front().schedule)];
  report_.collective = first.collective;
  report_.root = job_.root.value_or(first.root);
  report_.algorithm = book.entries.size() == 1 ? first.provenance.algorithm : kSeveralAlgorithms;
  report_.options = options_;
  report_.rank_count = job_.rank_count;
  report_.start_time = local_time();
  return ok();
}

// The buffers of one measurement, and where in them the rank's input and output lie.
struct Buffers {
  std::shared_ptr<std::byte> memory;
  std::shared_ptr<std::byte> apart;  // the output, where it is not in place
  std::span<std::byte> input;
  std::span<std::byte> output;
};

Result<std::shared_ptr<std::byte>> allocate(int64_t bytes, bool is_peer_memory) {
  if (is_peer_memory) {
    return allocate_peer_memory(std::max<int64_t>(bytes, 1));
  }
  const auto memory = std::make_shared<std::vector<std::byte>>(at(bytes));
  return std::shared_ptr<std::byte>(memory, memory->data());
}

Result<Buffers> make_buffers(const BufferSizes& sizes, int64_t first_of_shard, int64_t element_size,
                             bool in_place, bool is_peer_memory) {
  Buffers buffers;
  const int64_t held = in_place ? std::max(sizes.input, sizes.output) : sizes.input;
  PLEACH_SET(buffers.memory, allocate(held * element_size, is_peer_memory));
  PLEACH_SET(buffers.apart, allocate(in_place ? 0 : sizes.output * element_size, is_peer_memory));
  // In place a shard lies at its place in the whole.
  const auto view = [&](const std::shared_ptr<std::byte>& whole, int64_t size, bool is_shard) {
    return std::span(whole.get() + (is_shard ? first_of_shard * element_size : 0),
                     at(size * element_size));
  };
  buffers.input = view(buffers.memory, sizes.input, in_place && sizes.input < sizes.output);
  buffers.output = view(in_place ? buffers.memory : buffers.apart, sizes.output,
                        in_place && sizes.output < sizes.input);
  return buffers;
}

// As many in flight as there are requests.
Status Runner::repeat(const PreparedBook::Choice& choice, std::span<const RunRequest> requests,
                      int32_t iterations) {
  if (requests.size() == 1) {
    for (int32_t iteration = 0; iteration < iterations; ++iteration) {
      PLEACH_TRY(communicator_->run(*choice.schedule, requests.front()));
    }
    return ok();
  }
  std::vector<std::optional<Operation>> operations(requests.size());
  for (int32_t iteration = 0; iteration < iterations; ++iteration) {
    const std::size_t turn = at(iteration) % requests.size();
    if (operations[turn]) {
      PLEACH_TRY(operations[turn]->wait());
    }
    PLEACH_SET(operations[turn], communicator_->start(*choice.schedule, requests[turn]));
  }
  for (const std::optional<Operation>& operation : operations) {
    if (operation) {
      PLEACH_TRY(operation->wait());
    }
  }
  return ok();
}

Result<Measurement> Runner::measure_place(const PreparedBook::Choice& choice, int64_t count,
                                          bool in_place) {
  const Schedule& schedule = schedule_of(*choice.schedule);
  PLEACH_ASSIGN(placement, Placement::create(schedule, count));
  const int64_t element_size = element_bytes(options_.type);
  const int64_t first_of_shard = count / job_.rank_count * job_.rank.value;
  const ReferenceRequest reference =
      reference_request(schedule, options_.type, options_.op, count, options_.seed);
  std::vector<Buffers> all;
  std::vector<RunRequest> requests;
  for (int32_t turn = 0; turn < options_.in_flight; ++turn) {
    PLEACH_ASSIGN(made, make_buffers(placement.sizes(job_.rank), first_of_shard, element_size,
                                     in_place, options_.peer_memory));
    all.push_back(std::move(made));
    const Buffers& buffers = all.back();
    fill_input(reference, job_.rank, buffers.input);
    requests.push_back({.type = options_.type,
                        .op = options_.op,
                        .wire = options_.wire,
                        .count = count,
                        .segment_count = choice.segment_count,
                        .input = buffers.memory.get(),
                        .output = (in_place ? buffers.memory : buffers.apart).get()});
  }

  PLEACH_TRY(repeat(choice, requests, options_.warmup_iterations));
  PLEACH_TRY(communicator_->barrier());
  const SteadyClock clock;
  const TimePoint start = clock.now();
  PLEACH_TRY(repeat(choice, requests, options_.iterations));
  const double elapsed_s = seconds_of(clock.now() - start);

  int64_t wrong = 0;
  if (options_.check) {
    // Of runs of their own, because an in-place run has overwritten its inputs.
    for (const Buffers& buffers : all) {
      fill_output(buffers.output);
      fill_input(reference, job_.rank, buffers.input);
    }
    PLEACH_TRY(repeat(choice, requests, options_.in_flight));
    for (const Buffers& buffers : all) {
      wrong += count_wrong(reference, job_.rank, buffers.output, in_place);
    }
  }

  PLEACH_ASSIGN(values, gather(fmt::format("{:.17g} {}", elapsed_s / options_.iterations, wrong)));
  Measurement measurement;
  int64_t wrong_sum = 0;
  for (const std::string& value : values) {
    const std::size_t space = value.find(' ');
    measurement.time_s += std::strtod(value.c_str(), nullptr) / job_.rank_count;
    PLEACH_ASSIGN(wrong_there, parse_integer(std::string_view(value).substr(space + 1),
                                             "wrong count", 0, INT64_MAX));
    wrong_sum += wrong_there;
  }
  if (options_.check) {
    measurement.wrong_count = job_.rank.value == 0 ? wrong_sum : wrong;
  }
  if (measurement.time_s > 0) {
    measurement.algbw_bytes_per_s = static_cast<double>(count * element_size) / measurement.time_s;
  }
  measurement.busbw_bytes_per_s =
      measurement.algbw_bytes_per_s * bus_bandwidth_factor(schedule.collective, job_.rank_count);
  return measurement;
}

Result<BenchmarkRow> Runner::measure(int64_t size_bytes) {
  const CollectiveKind collective = report_.collective;
  const bool parts = has_parts(collective);
  int64_t count = size_bytes / element_bytes(options_.type);
  BenchmarkRow row;
  row.element_count = count;
  if (parts) {
    row.element_count = count / job_.rank_count;
    count = row.element_count * job_.rank_count;
  }
  row.size_bytes = count * element_bytes(options_.type);
  const int64_t wire_bytes = count * element_bytes(options_.wire.value_or(options_.type));
  PLEACH_ASSIGN(choice, book_->choose(collective, wire_bytes, report_.root));
  row.algorithm = algorithm_text(schedule_of(*choice.schedule).provenance);
  row.segment_count = choice.segment_count;
  if (options_.out_of_place) {
    PLEACH_SET(row.out_of_place, measure_place(choice, count, false));
  }
  if (options_.in_place) {
    PLEACH_SET(row.in_place, measure_place(choice, count, true));
  }
  return row;
}

Result<BenchmarkReport> Runner::run() {
  PLEACH_TRY(connect());
  PLEACH_TRY(agree());
  PLEACH_TRY(introduce());
  const auto tell = [&](const std::function<bool(const BenchmarkReport&)>& told) {
    return job_.rank.value != 0 || !told || told(report_);
  };
  bool goes_on = tell(job_.started);
  for (const int64_t size : options_.sizes_bytes) {
    PLEACH_SET(goes_on, agree_to_go_on(goes_on));
    if (!goes_on) {
      break;
    }
    PLEACH_ASSIGN(row, measure(size));
    report_.rows.push_back(row);
    goes_on = tell(job_.measured);
  }
  PLEACH_TRY(communicator_->close());
  report_.end_time = local_time();
  return std::move(report_);
}

}  // namespace

Result<BenchmarkReport> run_benchmark(const BenchmarkJob& job, const BenchmarkOptions& options) {
  Runner runner(job, options);
  Result<BenchmarkReport> report = runner.run();
  if (!report) {
    job.store->fail(named_failure(report.error(), job.rank));
  }
  return report;
}

}  // namespace pleach
