#include "pleach/cli/common.h"

#include <fmt/core.h>

#include <filesystem>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/training/placements.h"

namespace pleach {

void declare_topology(CommandLine& line) {
  line.required_option("--topology", "where: torus:4x4, cluster.toml, ...");
}

void declare_collective(CommandLine& line) {
  std::vector<std::string> kinds;
  kinds.reserve(kAllCollectives.size());
  for (const CollectiveKind kind : kAllCollectives) {
    kinds.emplace_back(to_text(kind));
  }
  line.option("--collective", alternatives(kinds), "all_reduce");
  line.option("--group", "ranks that take part, in order: 0,1,4-7");
  line.option(
      "-r,--root",
      "rank that alone gives (broadcast, scatter) or ends with all (reduce, gather); or the "
      "name of an I/O node (broadcast, reduce)",
      "0");
}

void declare_schedule(CommandLine& line, const std::string& otherwise) {
  line.optional_argument("FILE", "schedule file, in place of --algorithm");
  line.option("--algorithm", "auto (the fastest), ring, multitree, ... or a schedule file",
              otherwise);
  declare_collective(line);
}

std::optional<ExitCode> check_schedule(const CommandLine& line) {
  if (line.given("FILE") == line.given("--algorithm")) {
    return line.refuse("give either FILE or --algorithm");
  }
  return std::nullopt;
}

std::string schedule_source(const CommandLine& line) {
  const std::string& file = line.text("FILE");
  if (file.empty()) {
    return line.text("--algorithm");
  }
  return names_schedule_file(file) ? file : "./" + file;
}

Result<std::vector<std::string>> schedule_sources(const CommandLine& line) {
  if (line.given("--algorithm")) {
    return line.value("--algorithm", split_specs);
  }
  return std::vector<std::string>{schedule_source(line)};
}

Result<Strategy> strategy_option(const CommandLine& line, int32_t rank_count,
                                 const Topology* topology) {
  constexpr std::string_view kName = "strategy: ";
  auto strategy = parse_strategy(line.text("--strategy"), rank_count);
  if (strategy && strategy->placement_rule != PlacementRule::kGiven) {
    strategy = topology == nullptr
                   ? invalid("a placement that looks at the network needs a --topology")
                   : placed(*topology, std::move(*strategy));
  }
  if (!strategy && strategy.error().message.starts_with(kName)) {
    Error bare = strategy.error();
    bare.message.erase(0, kName.size());
    return prefixed("--strategy", bare);
  }
  return from_option("--strategy", std::move(strategy));
}

Status check_root(const CommandLine& line, CollectiveKind collective) {
  return line.given("--root") && !has_root(collective)
             ? invalid("--root", fmt::format("{} has no root", to_text(collective)))
             : ok();
}

Result<ScheduleRequest> schedule_request(const CommandLine& line, const Topology& on,
                                         const std::string& source) {
  PLEACH_ASSIGN(collective, line.value("--collective", parse_collective));
  for (const char* option : {"--group", "--root"}) {
    if (line.given(option) && names_schedule_file(source)) {
      return invalid(option, source + " says itself which ranks take part");
    }
  }
  PLEACH_TRY(check_root(line, collective));
  ScheduleRequest request;
  if (line.given("--collective") || !names_schedule_file(source)) {
    request.collective = collective;
  }
  if (line.given("--group")) {
    PLEACH_SET(request.participants, from_option("--group", parse_group(on, line.text("--group"))));
  }
  if (line.given("--root")) {
    PLEACH_TRY(from_option("--root", choose_root(on, line.text("--root"), request)));
  }
  if (request.participants.size() == 1) {
    return invalid("--group", fmt::format("{} is one rank: a collective takes at least 2",
                                          pleach::quoted(line.text("--group"))));
  }
  return request;
}

Result<std::optional<int32_t>> segments_option(const CommandLine& line) {
  if (line.text("--segments") == "auto") {
    return std::optional<int32_t>();
  }
  PLEACH_ASSIGN(segments, line.count("--segments", 1, kMostSegments));
  return std::optional(segments);
}

Result<uint64_t> seed_option(const CommandLine& line) {
  PLEACH_ASSIGN(seed, parse_integer(line.text("--seed"), "--seed", 0, INT64_MAX));
  return static_cast<uint64_t>(seed);
}

Result<int64_t> configuration_memory(const CommandLine& line) {
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  PLEACH_ASSIGN(bytes, line.value("--memory", parse_size_bytes));
  if (bytes > kMostBytes) {
    return invalid(fmt::format("--memory {} is over {}", pleach::quoted(line.text("--memory")),
                               format_size(kMostBytes)));
  }
  return bytes;
}

std::string schedule_extensions() {
  std::vector<std::string> extensions;
  for (const ScheduleFormat* format : schedule_formats()) {
    extensions.push_back(format->extension);
  }
  return alternatives(extensions);
}

std::string describe_bound(double algbw_bytes_per_s, bool exact, const std::string& witness) {
  return fmt::format("{}{}: {}", format_bandwidth(algbw_bytes_per_s), exact ? " (attainable)" : "",
                     witness);
}

Status add_csv(const CommandLine& line,
               const std::vector<std::pair<std::string, std::string>>& files, FileSet& set) {
  const std::string& folder = line.text("--csv");
  std::error_code error;
  if (folder.ends_with(".csv") && !std::filesystem::is_directory(folder, error)) {
    return invalid("--csv", fmt::format("{} is a file's name: give the folder that {} goes into",
                                        pleach::quoted(folder), files.front().first));
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kIo,
                 fmt::format("--csv: {}: {}", pleach::quoted(folder), error.message())};
  }
  for (const auto& [name, content] : files) {
    PLEACH_TRY(set.add(fmt::format("{}/{}", folder, name), content));
  }
  return ok();
}

Status write_csv(const CommandLine& line,
                 const std::vector<std::pair<std::string, std::string>>& files) {
  FileSet set;
  PLEACH_TRY(add_csv(line, files, set));
  return set.commit();
}

namespace {

std::string text_of(const Book& book) {
  Table table({{"collective", Table::Align::kLeft},
               {"up to", Table::Align::kRight},
               {"algorithm", Table::Align::kLeft},
               {"segments", Table::Align::kRight}});
  for (const Book::Entry& entry : book.entries) {
    const Schedule& schedule = *book.schedules[at(entry.schedule)];
    table.add({std::string(to_text(entry.collective)),
               entry.up_to_bytes == INT64_MAX ? "any" : format_size(entry.up_to_bytes),
               algorithm_text(schedule.provenance), std::to_string(entry.segment_count)});
  }
  return fmt::format("{} ranks, planned on {}\n{}", book.rank_count, one_line(book.topology),
                     table.text("  "));
}

}  // namespace

void print_book(const CommandLine& line, const Invocation& invocation, const Book& book) {
  print_text(invocation.out, line.json() ? plan_json(book) + "\n" : text_of(book));
}

}  // namespace pleach
