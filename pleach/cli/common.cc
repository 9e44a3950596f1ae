#include "pleach/cli/common.h"

#include <fmt/core.h>

#include "pleach/base/text.h"

namespace pleach {

void ScheduleOptions::declare_collective(CommandLine& line) {
  line.option("--collective", collective,
              "all_reduce, reduce_scatter, all_gather, broadcast, reduce or all_to_all");
  line.option("--group", group, "ranks that take part, in order: 0,1,4-7");
  line.option("--root", root, "rank that broadcasts or receives the reduction");
}

std::string ScheduleOptions::source(const std::string& file) const {
  if (file.empty()) {
    return algorithm;
  }
  return names_schedule_file(file) ? file : "./" + file;
}

Result<ScheduleRequest> ScheduleOptions::request(const Topology& on, const CommandLine& line,
                                                 const std::string& source) const {
  ScheduleRequest request;
  request.algorithm = source;
  PLEACH_ASSIGN(kind, from_option("--collective", parse_collective(collective)));
  request.collective = kind;
  request.collective_given = line.given("--collective");
  for (const char* option : {"--group", "--root"}) {
    if (line.given(option) && names_schedule_file(source)) {
      return invalid(fmt::format("{}: {} says itself which ranks take part", option, source));
    }
  }
  if (line.given("--root") && !has_root(kind)) {
    return invalid(fmt::format("--root: {} has no root", to_text(kind)));
  }
  if (line.given("--group")) {
    PLEACH_SET(request.participants, from_option("--group", parse_group(on, group)));
  }
  const std::size_t rank_count =
      line.given("--group") ? request.participants.size() : on.rank_nodes().size();
  PLEACH_ASSIGN(rank, parse_integer(root, "--root", 0, static_cast<int64_t>(rank_count) - 1));
  request.root = Rank{static_cast<int32_t>(rank)};
  return request;
}

std::string describe_bound(double algbw_bytes_per_s, bool exact, const std::string& witness) {
  return fmt::format("{}{}: {}", format_bandwidth(algbw_bytes_per_s), exact ? " (attainable)" : "",
                     witness);
}

Result<Topology> topology_option(const std::string& spec) {
  return from_option("--topology", parse_topology(spec));
}

}  // namespace pleach
