// docs/algorithms.md names every algorithm, and its table of figures is what the algorithms do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

std::string read_docs() {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
  const Result<std::string> text = read_file((root / "docs" / "algorithms.md").string());
  EXPECT_TRUE(text) << text.error().message;
  return text ? *text : "";
}

// What leaves a rank on average, in whole buffers of one rank.
double sent_per_rank(const Schedule& schedule) {
  const Result<Schedule> explicit_form = expand(schedule, nullptr);
  EXPECT_TRUE(explicit_form);
  int64_t chunk_count = 0;
  for (const Transfer& transfer : explicit_form->transfers) {
    const auto& ranks = schedule.participants;
    if (std::find(ranks.begin(), ranks.end(), transfer.source) != ranks.end()) {
      chunk_count += transfer.chunk_count;
    }
  }
  // The grid of an all_to_all covers the buffers of all ranks.
  const int32_t buffers =
      schedule.collective == CollectiveKind::kAllToAll ? schedule.rank_count() : 1;
  return static_cast<double>(chunk_count) * buffers / schedule.chunks.count() /
         schedule.rank_count();
}

std::string figures(const std::string& spec, CollectiveKind collective, int32_t rank_count) {
  const std::string shape = spec == "in_switch"
                                ? fmt::format("switch:{},reduce=true,multicast=true", rank_count)
                                : fmt::format("fully_connected:{}", rank_count);
  const Result<Topology> topology = parse_topology(shape);
  EXPECT_TRUE(topology) << topology.error().message;
  const Result<Schedule> schedule = synthesize({*topology, {}, collective}, spec);
  if (!schedule) {
    EXPECT_EQ(schedule.error().code, ErrorCode::kInfeasible) << schedule.error().message;
    return "- | - | -";
  }
  return fmt::format("{} | {} | {:.3g}", schedule->step_count(), schedule->transfer_count(),
                     sent_per_rank(*schedule));
}

TEST(AlgorithmDocs, HoldTheFiguresOfEveryAlgorithm) {
  std::string table =
      "| algorithm | collective | steps | messages | sent | steps | messages | sent |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const Algorithm* algorithm : algorithms()) {
    for (const CollectiveKind collective : algorithm->collectives) {
      table += fmt::format("| {} | {} | {} | {} |\n", algorithm->name, to_text(collective),
                           figures(algorithm->name, collective, 8),
                           figures(algorithm->name, collective, 6));
    }
  }
  EXPECT_NE(read_docs().find("\n" + table + "\n"), std::string::npos)
      << "docs/algorithms.md should hold this table:\n"
      << table;
}

TEST(AlgorithmDocs, DescribeEveryAlgorithmAndOption) {
  const std::string docs = read_docs();
  for (const Algorithm* algorithm : algorithms()) {
    EXPECT_NE(docs.find("## " + algorithm->name + "\n"), std::string::npos) << algorithm->name;
    for (const OptionDescriptor& option : algorithm->options) {
      EXPECT_NE(docs.find("`" + option.name + "="), std::string::npos) << option.name;
    }
  }
}

}  // namespace
}  // namespace pleach
