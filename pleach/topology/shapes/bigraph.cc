#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

// The switches of the lower half come first, then those of the upper.
Result<Topology> make_bigraph(const std::string& name, const std::string& argument,
                              const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(sizes, parse_sizes("bigraph", argument, "MxN"));
  const int32_t ranks_per_switch = sizes[0], switch_count = sizes[1];
  if (switch_count % 2 != 0 || switch_count > 4096) {
    return invalid(
        fmt::format("bigraph: {} switches: it takes an even number of at most 4096", switch_count));
  }
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  const int32_t rank_count = ranks_per_switch * switch_count;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  for (int32_t number = 0; number < switch_count; ++number) {
    PLEACH_TRY(builder.add_node(settings.plain_switch(fmt::format("switch{}", number))));
  }
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    PLEACH_TRY(builder.add_cable(
        settings.link(NodeId{rank}, NodeId{rank_count + rank / ranks_per_switch})));
  }
  for (int32_t lower = 0; lower < switch_count / 2; ++lower) {
    for (int32_t upper = switch_count / 2; upper < switch_count; ++upper) {
      PLEACH_TRY(
          builder.add_cable(settings.link(NodeId{rank_count + lower}, NodeId{rank_count + upper})));
    }
  }
  return std::move(builder).build();
}

}  // namespace

// Dong et al., EFLOPS, HPCA 2020.
extern const Shape kBigraphShape = {
    "bigraph",
    "N switches with M ranks each, a cable between every two of different halves",
    "MxN",
    {switch_latency_option()},
    make_bigraph};

}  // namespace pleach
