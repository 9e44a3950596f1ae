// What `pleach run` is asked for.
#include <fmt/core.h>

#include <array>

#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/cli/run.h"
#include "pleach/collective/program.h"

namespace pleach {

namespace {

// "auto: ...; tcp: processes; shm: processes of one host; inproc: threads of one process".
std::string describe_transports() {
  std::vector<std::string> words = {
      "auto: shm on one host, tcp on as many as there are ranks, else host"};
  for (const TransportKind* kind : transports()) {
    words.push_back(kind->name + (kind->spans_hosts       ? ": processes"
                                  : kind->spans_processes ? ": processes of one host"
                                                          : ": threads of one process"));
  }
  return join(words, "; ");
}

}  // namespace

void declare_run(CommandLine& line) {
  line.option("--ranks", "processes to start here; under mpirun, torchrun, Slurm: theirs");
  line.option("--topology",
              "where to plan (default: what is known of the transport; of an algorithm's name "
              "fully_connected:RANKS)");
  declare_schedule(line, kAutoAlgorithm);
  line.option("--hosts", "that the ranks started here take themselves to be on, evenly", "1");
  line.option("--transport", describe_transports(), kAutoTransport);
  line.option("--sizes", "whole buffers: 1KiB:256MiB:4 (from, to, factor) or a list");
  line.option("-b,--minbytes", "first size, without --sizes", "32MiB");
  line.option("-e,--maxbytes", "last size, without --sizes", "32MiB");
  line.option("-f,--stepfactor", "factor between sizes, without --sizes", "2");
  line.option("-i,--stepbytes", "step between sizes, in place of a factor");
  line.option("-g,--ngpus", "ranks to start, times those of --nthreads, in place of --ranks");
  line.option("-t,--nthreads", "the same");
  line.option("-n,--iterations,--iters", "timed iterations of each size", "20");
  line.option("-w,--warmup,--warmup_iters", "iterations before them", "1");
  line.option("-d,--dtype,--datatype",
              "float32 (float), float64 (double), float16 (half), bfloat16, int8 (char), int32 "
              "(int), int64 or uint8",
              "float32");
  line.option("-o,--op",
              "sum, product (prod), min or max; average (avg) of floating types; band, bor or bxor "
              "of integers",
              "sum");
  line.option("--wire",
              "what travels, and partial sums are kept in: float32, where float16 or bfloat16 are "
              "reduced; default: the type");
  line.option("--segments", "parts of each chunk that pipeline; default: the planner's, else 1");
  line.option("--in-flight", "operations started before the first is waited for, buffers apart",
              "1");
  line.option("--landing-places", "segments in flight on each connection", "4");
  line.option("--deadline", "of every wait; a lost rank fails the others within it", "30s");
  line.option("--in-place", "both, only or never", "both");
  line.option("--buffers",
              "ordinary, or pleach: memory that the ranks of one host read where it stands",
              "ordinary");
  line.option("-c,--check", "compare every result with a serial reference: 1 or 0", "1");
  line.option("--seed", "of the inputs", "1");
  line.option("-J,--output-file", "file for nccl-tests' JSON; an existing one is kept");
  line.json_flag();
}

namespace {

enum class InPlace : uint8_t { kBoth, kOnly, kNever };
constexpr std::array<Name<InPlace>, 3> kInPlaces = {
    {{InPlace::kBoth, "both"}, {InPlace::kOnly, "only"}, {InPlace::kNever, "never"}}};

constexpr std::array<Name<bool>, 2> kBuffers = {{{false, "ordinary"}, {true, "pleach"}}};

// Those of --sizes, or from --minbytes to --maxbytes, as nccl-tests counts them.
Result<std::vector<int64_t>> sizes_option(const CommandLine& line) {
  if (line.given("--sizes")) {
    return line.value("--sizes", parse_sizes);
  }
  PLEACH_ASSIGN(least, line.value("--minbytes", parse_size_bytes));
  PLEACH_ASSIGN(most, line.value("--maxbytes", parse_size_bytes));
  if (!line.given("--stepbytes")) {
    PLEACH_ASSIGN(factor, line.count("--stepfactor", 2, 1 << 30));
    if (most < least) {
      return invalid(line.given("--maxbytes") ? "--maxbytes" : "--minbytes",
                     fmt::format("sizes from {} to {} do not ascend", least, most));
    }
    return from_option("--minbytes", parse_sizes(fmt::format("{}:{}:{}", least, most, factor)));
  }
  PLEACH_ASSIGN(step, line.value("--stepbytes", parse_size_bytes));
  if (line.given("--stepfactor")) {
    return invalid("--stepbytes", "--stepfactor is given too");
  }
  constexpr int64_t kMostSteps = 1000;
  if (least < 1 || most < least || step < 1 || (most - least) / step >= kMostSteps) {
    return invalid("--stepbytes", fmt::format("{} from {} to {} is no list of 1 to {} sizes", step,
                                              least, most, kMostSteps));
  }
  std::vector<int64_t> sizes;
  for (int64_t size = least; size <= most; size += step) {
    sizes.push_back(size);
  }
  return sizes;
}

constexpr int32_t kMostRanks = 65'536;

// --ranks, or the product of nccl-tests' two numbers, of which 1 says nothing; 0: none is given.
Result<int32_t> rank_count_option(const CommandLine& line) {
  int64_t product = 1;
  for (const char* name : {"--ngpus", "--nthreads"}) {
    if (line.given(name)) {
      PLEACH_ASSIGN(count, line.count(name, 1, kMostRanks));
      product *= count;
    }
  }
  if (product > kMostRanks) {
    return invalid("--ngpus", fmt::format("{} ranks are more than {}", product, kMostRanks));
  }
  if (!line.given("--ranks")) {
    return product == 1 ? 0 : static_cast<int32_t>(product);
  }
  PLEACH_ASSIGN(ranks, line.count("--ranks", 2, kMostRanks));
  if (product != 1 && product != ranks) {
    return invalid("--ranks",
                   fmt::format("is {}, but --ngpus times --nthreads {}", ranks, product));
  }
  return ranks;
}

Result<BenchmarkOptions> understand_benchmark(const CommandLine& line) {
  BenchmarkOptions benchmark;
  PLEACH_SET(benchmark.sizes_bytes, sizes_option(line));
  constexpr int32_t kMostIterations = 100'000'000;
  PLEACH_SET(benchmark.iterations, line.count("--iterations", 1, kMostIterations));
  PLEACH_SET(benchmark.warmup_iterations, line.count("--warmup", 0, kMostIterations));
  PLEACH_SET(benchmark.type, line.value("--dtype", parse_element_type));
  PLEACH_SET(benchmark.op, line.value("--op", parse_reduce_op));
  if (const Status has_it = check_reduction(benchmark.type, benchmark.op); !has_it) {
    return prefixed("--op", has_it.error());
  }
  if (line.given("--wire")) {
    PLEACH_SET(benchmark.wire, line.value("--wire", parse_element_type));
    PLEACH_ASSIGN(collective, line.value("--collective", parse_collective));
    PLEACH_TRY(from_option("--wire", check_wire(collective, benchmark.type, *benchmark.wire)));
  }
  constexpr int32_t kMostInFlight = 64;
  PLEACH_SET(benchmark.in_flight, line.count("--in-flight", 1, kMostInFlight));
  PLEACH_ASSIGN(places, parse_name(kInPlaces, "--in-place", line.text("--in-place")));
  benchmark.out_of_place = places != InPlace::kOnly;
  benchmark.in_place = places != InPlace::kNever;
  PLEACH_SET(benchmark.peer_memory, parse_name(kBuffers, "--buffers", line.text("--buffers")));
  PLEACH_SET(benchmark.check, line.value("--check", parse_switch));
  PLEACH_SET(benchmark.seed, seed_option(line));
  return benchmark;
}

}  // namespace

Result<RunSettings> understand_run(const CommandLine& line) {
  RunSettings settings;
  PLEACH_SET(settings.benchmark, understand_benchmark(line));
  // The variable chooses for PyTorch's process groups, too.
  constexpr const char* kVariable = "PLEACH_TRANSPORT";
  const std::string variable = process_environment(kVariable).value_or("");
  const bool is_of_variable = !line.given("--transport") && !variable.empty();
  const std::string where = is_of_variable ? kVariable : "--transport";
  settings.transport = is_of_variable ? variable : line.text("--transport");
  PLEACH_TRY(from_option(where, check_transport(settings.transport)));
  if (settings.transport != kAutoTransport) {
    PLEACH_ASSIGN(kind, from_option(where, transports().select(settings.transport)));
    settings.spans_processes = kind.entry->spans_processes;
  }
  PLEACH_SET(settings.landing_places, line.count("--landing-places", 1, kMostPlaces));
  PLEACH_ASSIGN(deadline_ps, line.value("--deadline", parse_time_ps));
  constexpr int64_t kLeastDeadlinePs = kPicosecondsPerSecond / 1000;
  constexpr int64_t kMostDeadlinePs = kPicosecondsPerSecond * 86'400;
  if (deadline_ps < kLeastDeadlinePs || deadline_ps > kMostDeadlinePs) {
    return invalid("--deadline", line.text("--deadline") + " is not between 1ms and 86400s");
  }
  settings.deadline = std::chrono::nanoseconds(deadline_ps / 1000);
  PLEACH_SET(settings.rank_count, rank_count_option(line));
  PLEACH_SET(settings.host_count,
             line.count("--hosts", 1, settings.rank_count == 0 ? kMostRanks : settings.rank_count));
  PLEACH_TRY(from_option("--hosts", check_hosts(settings.transport, settings.host_count)));
  return settings;
}

namespace {

// The schedule of a file, or of the algorithm that is named.
Result<std::shared_ptr<const Schedule>> schedule_for(const CommandLine& line, int32_t rank_count) {
  const std::string spec = line.given("--topology") ? line.text("--topology")
                                                    : fmt::format("fully_connected:{}", rank_count);
  PLEACH_ASSIGN(topology, from_option("--topology", load_topology(spec)));
  const std::string source = schedule_source(line);
  PLEACH_ASSIGN(request, schedule_request(line, topology, source));
  const bool has_routes = line.given("--topology") || !names_schedule_file(source);
  PLEACH_ASSIGN(schedule, has_routes ? obtain_schedule(topology, source, request)
                                     : obtain_schedule_without_routes(source, request));
  if (schedule->rank_count() != rank_count) {
    return invalid(fmt::format("{} plans for {} ranks, but there are {} (--ranks)",
                               has_routes ? spec : source, schedule->rank_count(), rank_count));
  }
  // Schedules for a switch that reduces are refused here, before any rank exists.
  PLEACH_TRY(check_switchless(*schedule));
  return std::move(schedule);
}

// Of --segments, where it is given.
Result<std::optional<int32_t>> given_segments(const CommandLine& line) {
  if (line.text("--segments").empty()) {
    return std::optional<int32_t>();
  }
  PLEACH_ASSIGN(count, line.count("--segments", 1, kMostSegments));
  return std::optional(count);
}

// Those entries of a book that are of a collective.
Result<Book> part_of(Book book, const BookRequest& from, CollectiveKind collective,
                     std::optional<int32_t> segments) {
  std::erase_if(book.entries,
                [&](const Book::Entry& entry) { return entry.collective != collective; });
  if (book.entries.empty()) {
    return invalid(from.file.empty() ? "" : from.place(),
                   fmt::format("the book has no {}", to_text(collective)));
  }
  for (Book::Entry& entry : book.entries) {
    entry.segment_count = segments.value_or(entry.segment_count);
  }
  return book;
}

}  // namespace

Result<Book> book_for(const CommandLine& line, int32_t rank_count, const TransportChoice& choice) {
  if (rank_count < 2) {
    return invalid(fmt::format("{} rank: a collective needs at least 2", rank_count));
  }
  PLEACH_ASSIGN(segments, given_segments(line));
  if (schedule_source(line) != kAutoAlgorithm) {
    PLEACH_ASSIGN(schedule, schedule_for(line, rank_count));
    return book_of(std::move(schedule), segments.value_or(1));
  }
  if (line.given("--group")) {
    return invalid("--group", "auto plans for all ranks");
  }
  PLEACH_ASSIGN(collective, line.value("--collective", parse_collective));
  PLEACH_TRY(check_root(line, collective));
  BookRequest request = book_request(process_environment, choice.transport);
  request.hosts = choice.hosts;
  if (line.given("--topology")) {
    request.topology = line.text("--topology");
    request.file.clear();
  }
  PLEACH_ASSIGN(book, obtain_book(request, rank_count));
  return part_of(std::move(book), request, collective, segments);
}

Result<std::optional<Rank>> root_option(const CommandLine& line, int32_t rank_count) {
  if (!line.given("--root")) {
    return std::optional<Rank>();
  }
  PLEACH_ASSIGN(root, line.count("--root", 0, rank_count - 1));
  return std::optional(Rank{root});
}

}  // namespace pleach
