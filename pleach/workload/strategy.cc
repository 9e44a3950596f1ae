#include "pleach/workload/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/names.h"
#include "pleach/base/options.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

constexpr std::array<Name<ParallelDimension>, 4> kDimensionNames = {{
    {ParallelDimension::kTensor, "tp"},
    {ParallelDimension::kSequence, "sp"},
    {ParallelDimension::kPipeline, "pp"},
    {ParallelDimension::kData, "dp"},
}};
constexpr std::array<Name<PlacementRule>, 2> kRuleNames = {{
    {PlacementRule::kMesh, "mesh"},
    {PlacementRule::kSearch, "search"},
}};
constexpr std::array<Name<PipelineSchedule>, 2> kScheduleNames = {{
    {PipelineSchedule::kOneForwardOneBackward, "1f1b"},
    {PipelineSchedule::kGpipe, "gpipe"},
}};

std::vector<OptionDescriptor> descriptors() {
  const auto count = [](const std::string& name, const std::string& summary, int64_t least = 1) {
    return OptionDescriptor{
        .name = name, .default_value = std::to_string(least), .summary = summary, .least = least};
  };
  return {count("dp", "data-parallel replicas; left out: what the other numbers leave"),
          count("tp", "ranks that split every layer's matrices"),
          count("pp", "pipeline stages"),
          count("sp", "ranks that split every sample's sequence"),
          count("ep", "ranks that share the experts"),
          count("micro_batches", "parts of a replica's batch"),
          {.name = "schedule",
           .kind = Kind::kChoice,
           .default_value = "1f1b",
           .summary = "order of a stage's passes",
           .allowed = {"1f1b", "gpipe"}},
          {.name = "zero", .default_value = "0", .summary = "ZeRO stage", .least = 0, .most = 3},
          {.name = "tensor_sequence",
           .kind = Kind::kChoice,
           .default_value = "off",
           .summary = "reduce_scatter and all_gather in place of the tensor group's all_reduce",
           .allowed = {"off", "on"}},
          {.name = "recompute",
           .kind = Kind::kChoice,
           .default_value = "off",
           .summary = "drop activations, and compute forward again before backward",
           .allowed = {"off", "on"}},
          {.name = "optimizer",
           .kind = Kind::kChoice,
           .default_value = "adam",
           .summary = "whose step takes time, where an accelerator says how long",
           .allowed = {"adam", "none"}},
          {.name = "outputs",
           .kind = Kind::kChoice,
           .default_value = "pairs",
           .summary = "a stage's output: a message of each rank, or one rank's to all of the next",
           .allowed = {"pairs", "multicast"}},
          {.name = "stream",
           .kind = Kind::kText,
           .default_value = "",
           .summary = "bandwidth at which each rank's weights stream in; io: by the I/O nodes"},
          {.name = "placement",
           .kind = Kind::kText,
           .default_value = "tp-sp-pp-dp",
           .summary = "how ranks are numbered, the fastest first (fred: as it is); or the rank of "
                      "each place; or a rule that looks at the network: mesh, search"},
          count("placement_seed", "of placement=search"),
          count("idle", "ranks that do nothing", 0)};
}

Result<std::array<ParallelDimension, 4>> parse_order(const std::string& text) {
  std::array<ParallelDimension, 4> placement = {};
  const std::vector<std::string_view> names = split(text, '-');
  if (!std::ranges::is_permutation(names, kDimensionNames, {}, {},
                                   &Name<ParallelDimension>::text)) {
    return invalid(
        fmt::format("strategy: placement {} does not name each of tp, sp, pp, dp once, "
                    "as tp-sp-pp-dp does, and is none of fred, mesh and search",
                    pleach::quoted(text)));
  }
  for (std::size_t at = 0; at < names.size(); ++at) {
    PLEACH_SET(placement[at], parse_name(kDimensionNames, "dimension", names[at]));
  }
  return placement;
}

bool names_file(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

Result<std::vector<int32_t>> read_places(const std::string& path, int32_t rank_count) {
  PLEACH_ASSIGN(text, read_text_file(path));
  PLEACH_ASSIGN(root, parse_json(text, path));
  const auto error = [&](const nlohmann::json::json_pointer& pointer, const std::string& what) {
    return invalid(json_place(text, path, pointer), what);
  };
  if (!root.is_array()) {
    return error(nlohmann::json::json_pointer(), "not a JSON list of ranks, as [0, 4, 1, 5]");
  }
  std::vector<int32_t> ranks;
  for (const nlohmann::json& value : root) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(rank_count)) {
      return error(nlohmann::json::json_pointer() / ranks.size(),
                   fmt::format("{} is no rank from 0 to {}", shown(value), rank_count - 1));
    }
    ranks.push_back(value.get<int32_t>());
  }
  if (ranks.empty()) {  // which is not said of a strategy
    return invalid("strategy: placement: no ranks");
  }
  return ranks;
}

// Into the strategy's `placement` or `rank_of_place`, which is yet to be checked.
Status parse_placement(const std::string& text, int32_t rank_count, Strategy& strategy) {
  if (const auto rule = value_of(kRuleNames, text)) {
    strategy.placement_rule = *rule;
    return ok();
  }
  if (text == "fred") {
    return ok();  // as it is
  }
  if (names_file(text)) {
    PLEACH_SET(strategy.rank_of_place, read_places(text, rank_count));
    return ok();
  }
  if (text.empty() || text.find_first_not_of("0123456789-") != std::string::npos) {
    PLEACH_SET(strategy.placement, parse_order(text));
    return ok();
  }
  for (const std::string_view word : split(text, '-')) {
    strategy.rank_of_place.emplace_back();
    PLEACH_SET(strategy.rank_of_place.back(),
               parse_count(word, "strategy: placement: rank", 0, rank_count - 1));
  }
  return ok();
}

// Sets `data` where it is not given, and holds the product against the ranks.
Status fit_ranks(Strategy& strategy, bool has_data, int32_t rank_count) {
  const auto wrong = [&](const std::string& what) { return invalid("strategy: " + what); };
  const int32_t used = rank_count - strategy.idle;
  if (used < 1) {
    return wrong(fmt::format("{} of {} ranks are idle", strategy.idle, rank_count));
  }
  // Each product is held against `used` before the next factor: no overflow.
  int64_t product = 1;
  for (const int32_t factor : {strategy.tensor, strategy.pipeline, strategy.sequence}) {
    product *= factor;
    product = std::min<int64_t>(product, INT32_MAX);
  }
  const std::string factors =
      fmt::format("tp={} x pp={} x sp={}", strategy.tensor, strategy.pipeline, strategy.sequence);
  const std::string ranks = strategy.idle > 0
                                ? fmt::format("{} ranks less {} idle", rank_count, strategy.idle)
                                : fmt::format("{} ranks", rank_count);
  if (!has_data) {
    if (used % product != 0) {
      return wrong(fmt::format("{} does not divide {}", factors, ranks));
    }
    strategy.data = static_cast<int32_t>(used / product);
  } else if (product * strategy.data != used) {
    return wrong(fmt::format("dp={} x {} is not {}", strategy.data, factors, ranks));
  }
  if (strategy.data % strategy.expert != 0) {
    return wrong(fmt::format("ep={} does not divide dp={}", strategy.expert, strategy.data));
  }
  return ok();
}

}  // namespace

int32_t Strategy::rank_end() const {
  return rank_of_place.empty() ? rank_count() : *std::ranges::max_element(rank_of_place) + 1;
}

Status check_placement(const Strategy& strategy) {
  std::vector<int32_t> ranks = strategy.rank_of_place;
  if (ranks.empty()) {
    return ok();
  }
  std::ranges::sort(ranks);
  if (ranks.front() < 0) {
    return invalid(fmt::format("strategy: placement: there is no rank {}", ranks.front()));
  }
  if (const auto twice = std::ranges::adjacent_find(ranks); twice != ranks.end()) {
    return invalid(fmt::format("strategy: placement: rank {} is there twice", *twice));
  }
  if (count_of(ranks) != strategy.rank_count()) {
    int32_t missing = 0;
    while (at(missing) < ranks.size() && ranks[at(missing)] == missing) {
      ++missing;
    }
    return invalid(fmt::format(
        "strategy: placement: {} ranks for the {} places of dp={} x tp={} x pp={} x sp={}{}",
        ranks.size(), strategy.rank_count(), strategy.data, strategy.tensor, strategy.pipeline,
        strategy.sequence,
        count_of(ranks) < strategy.rank_count() ? fmt::format("; rank {} is missing", missing)
                                                : ""));
  }
  return ok();
}

Result<Strategy> parse_strategy(std::string_view text, int32_t rank_count) {
  // The grammar of specs, without a name.
  std::string named = "strategy";
  if (!trim(text).empty()) {
    named += fmt::format(",{}", trim(text));
  }
  PLEACH_ASSIGN(spec, parse_spec(named));
  PLEACH_ASSIGN(options, Options::create(descriptors(), spec.options, "strategy"));
  const auto count = [&](const std::string& name) {
    return static_cast<int32_t>(options.integer(name));
  };
  PLEACH_ASSIGN(schedule, parse_name(kScheduleNames, "schedule", options.text("schedule")));
  int64_t stream_bytes_per_s = 0;
  const bool streams_by_io = options.text("stream") == "io";
  if (!options.text("stream").empty() && !streams_by_io) {
    const auto bandwidth = parse_bandwidth_bytes_per_s(options.text("stream"));
    if (!bandwidth) {
      return invalid(fmt::format("strategy: stream: {}; or io", bandwidth.error().message));
    }
    stream_bytes_per_s = *bandwidth;
  }
  Strategy strategy = {.data = count("dp"),
                       .tensor = count("tp"),
                       .pipeline = count("pp"),
                       .sequence = count("sp"),
                       .expert = count("ep"),
                       .micro_batches = count("micro_batches"),
                       .schedule = schedule,
                       .zero = count("zero"),
                       .tensor_sequence = options.text("tensor_sequence") == "on",
                       .recompute = options.text("recompute") == "on",
                       .optimizer = options.text("optimizer") == "adam",
                       .multicast_outputs = options.text("outputs") == "multicast",
                       .stream_bytes_per_s = stream_bytes_per_s,
                       .streams_by_io = streams_by_io,
                       .idle = count("idle"),
                       .placement_seed = count("placement_seed")};
  const bool has_data =
      std::ranges::any_of(spec.options, [](const auto& option) { return option.first == "dp"; });
  PLEACH_TRY(fit_ranks(strategy, has_data, rank_count));
  PLEACH_TRY(parse_placement(options.text("placement"), rank_count, strategy));
  PLEACH_TRY(check_placement(strategy));
  return strategy;
}

std::string to_text(const Strategy& strategy) {
  const Strategy plain;
  std::string text = fmt::format("dp={}", strategy.data);
  const auto add = [&](std::string_view key, int32_t value, int32_t otherwise) {
    if (value != otherwise) {
      text += fmt::format(",{}={}", key, value);
    }
  };
  add("tp", strategy.tensor, plain.tensor);
  add("pp", strategy.pipeline, plain.pipeline);
  add("sp", strategy.sequence, plain.sequence);
  add("ep", strategy.expert, plain.expert);
  add("micro_batches", strategy.micro_batches, plain.micro_batches);
  if (strategy.schedule != plain.schedule) {
    text += fmt::format(",schedule={}", name_of(kScheduleNames, strategy.schedule));
  }
  add("zero", strategy.zero, plain.zero);
  if (strategy.tensor_sequence) {
    text += ",tensor_sequence=on";
  }
  text += strategy.recompute ? ",recompute=on" : "";
  text += strategy.optimizer ? "" : ",optimizer=none";
  text += strategy.multicast_outputs ? ",outputs=multicast" : "";
  if (strategy.stream_bytes_per_s > 0) {
    text += fmt::format(",stream={}B/s", strategy.stream_bytes_per_s);
  }
  text += strategy.streams_by_io ? ",stream=io" : "";
  if (strategy.placement_rule != plain.placement_rule) {
    text += fmt::format(",placement={}", name_of(kRuleNames, strategy.placement_rule));
    add("placement_seed", strategy.placement_seed, plain.placement_seed);
  } else if (!strategy.rank_of_place.empty()) {
    text += fmt::format(",placement={}", fmt::join(strategy.rank_of_place, "-"));
  } else if (strategy.placement != plain.placement) {
    std::vector<std::string> names;
    for (const ParallelDimension dimension : strategy.placement) {
      names.emplace_back(name_of(kDimensionNames, dimension));
    }
    text += ",placement=" + join(names, "-");
  }
  add("idle", strategy.idle, plain.idle);
  return text;
}

}  // namespace pleach
