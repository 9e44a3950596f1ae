// What `pleach run` is asked for.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "pleach/base/text.h"
#include "pleach/cli/run.h"
#include "pleach/collective/program.h"

namespace pleach {

void RunOptions::declare(CommandLine& line) {
  line.optional_argument("FILE", file, "schedule file, in place of --algorithm");
  line.option("--ranks", ranks, "processes to start here; under mpirun, torchrun, Slurm: theirs");
  line.option("--topology", schedule.topology, "where to plan (default fully_connected:RANKS)");
  line.option("--algorithm", schedule.algorithm, "ring, multitree, ... or a schedule file");
  schedule.declare_collective(line);
  line.option("--transport", transport, "tcp: processes; inproc: threads of one process");
  line.option("--sizes", sizes, "whole buffers: 1KiB:256MiB:4 (from, to, factor) or a list");
  line.option("-b,--minbytes", least, "first size, without --sizes");
  line.option("-e,--maxbytes", most, "last size, without --sizes");
  line.option("-f,--stepfactor", factor, "factor between sizes, without --sizes");
  line.option("-n,--iterations,--iters", iterations, "timed iterations of each size");
  line.option("-w,--warmup,--warmup_iters", warmup, "iterations before them");
  line.option("-d,--dtype,--datatype", type, "float32, float64 or int32");
  line.option("-o,--op", op, "sum, product, min or max");
  line.option("--segments", segments, "parts of each chunk that pipeline");
  line.option("--landing-places", landing_places, "segments in flight on each connection");
  line.option("--deadline", deadline, "of every wait; a lost rank fails the others within it");
  line.option("--in-place", in_place, "both, only or never");
  line.option("-c,--check", check, "compare every result with a serial reference: 1 or 0");
  line.option("--seed", seed, "of the inputs");
  line.option("-J,--output-file", output_file,
              "file for nccl-tests' JSON; an existing one is kept");
  line.flag("--json", json, "print one JSON object");
}

namespace {

Status understand_measurement(const RunOptions& options, BenchmarkOptions& benchmark) {
  std::string sizes = options.sizes;
  if (sizes.empty()) {
    PLEACH_TRY(from_option("--minbytes", parse_size_bytes(options.least)));
    PLEACH_TRY(from_option("--maxbytes", parse_size_bytes(options.most)));
    sizes = fmt::format("{}:{}:{}", options.least, options.most, options.factor);
  }
  PLEACH_SET(benchmark.sizes_bytes, from_option("--sizes", parse_sizes(sizes)));
  constexpr int64_t kMostIterations = 100'000'000;
  PLEACH_ASSIGN(iterations, parse_integer(options.iterations, "--iterations", 1, kMostIterations));
  benchmark.iterations = static_cast<int32_t>(iterations);
  PLEACH_ASSIGN(warmup, parse_integer(options.warmup, "--warmup", 0, kMostIterations));
  benchmark.warmup_iterations = static_cast<int32_t>(warmup);
  PLEACH_SET(benchmark.type, from_option("--dtype", parse_element_type(options.type)));
  PLEACH_SET(benchmark.op, from_option("--op", parse_reduce_op(options.op)));
  PLEACH_ASSIGN(segments, parse_integer(options.segments, "--segments", 1, kMostSegments));
  benchmark.segment_count = static_cast<int32_t>(segments);
  const std::vector<std::string> places = {"both", "only", "never"};
  if (std::find(places.begin(), places.end(), options.in_place) == places.end()) {
    return unknown_name("--in-place", options.in_place, places);
  }
  benchmark.out_of_place = options.in_place != "only";
  benchmark.in_place = options.in_place != "never";
  PLEACH_SET(benchmark.check, from_option("--check", parse_switch(options.check)));
  PLEACH_ASSIGN(seed, parse_integer(options.seed, "--seed", 0, INT64_MAX));
  benchmark.seed = static_cast<uint64_t>(seed);
  return ok();
}

}  // namespace

Result<RunPlan> understand(const RunOptions& options) {
  RunPlan plan;
  PLEACH_TRY(understand_measurement(options, plan.benchmark));
  PLEACH_SET(plan.transport, from_option("--transport", transports().find(options.transport)));
  PLEACH_ASSIGN(places, parse_integer(options.landing_places, "--landing-places", 1, 1 << 16));
  plan.landing_places = static_cast<int32_t>(places);
  PLEACH_ASSIGN(deadline_ps, from_option("--deadline", parse_time_ps(options.deadline)));
  constexpr int64_t kLeastDeadlinePs = kPicosecondsPerSecond / 1000;
  constexpr int64_t kMostDeadlinePs = kPicosecondsPerSecond * 86'400;
  if (deadline_ps < kLeastDeadlinePs || deadline_ps > kMostDeadlinePs) {
    return invalid(fmt::format("--deadline: {} is not between 1ms and 86400s", options.deadline));
  }
  plan.deadline = std::chrono::nanoseconds(deadline_ps / 1000);
  if (!options.ranks.empty()) {
    PLEACH_ASSIGN(ranks, parse_integer(options.ranks, "--ranks", 2, 65'536));
    plan.rank_count = static_cast<int32_t>(ranks);
  }
  plan.topology = options.schedule.topology;
  plan.algorithm = options.schedule.source(options.file);
  plan.output_file = options.output_file;
  plan.json = options.json;
  return plan;
}

Result<Schedule> plan_schedule(const RunPlan& plan, const RunOptions& options,
                               const CommandLine& line, int32_t rank_count) {
  if (rank_count < 2) {
    return invalid(fmt::format("{} rank: a collective needs at least 2", rank_count));
  }
  const std::string spec =
      plan.topology.empty() ? fmt::format("fully_connected:{}", rank_count) : plan.topology;
  PLEACH_ASSIGN(topology, topology_option(spec));
  PLEACH_ASSIGN(request, options.schedule.request(topology, line, plan.algorithm));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, request));
  if (schedule.rank_count() != rank_count) {
    return invalid(fmt::format("{} plans for {} ranks, but there are {} (--ranks)", spec,
                               schedule.rank_count(), rank_count));
  }
  // Schedules for a switch that reduces are refused here, before any rank exists.
  PLEACH_TRY(check_switchless(schedule, Order::build(schedule)));
  return std::move(schedule);
}

Result<std::string> reserve_output_file(const std::string& path) {
  std::string candidate = path;
  for (int suffix = 0; suffix < 10'000; ++suffix) {
    const int descriptor = open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      close(descriptor);
      return candidate;
    }
    if (errno != EEXIST) {
      break;
    }
    candidate = fmt::format("{}.{}", path, suffix);
  }
  return Error{ErrorCode::kIo,
               fmt::format("--output-file: {}: {}", candidate, std::strerror(errno))};
}

}  // namespace pleach
