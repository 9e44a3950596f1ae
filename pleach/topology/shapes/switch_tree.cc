#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "pleach/base/text.h"
#include "pleach/topology/shapes/switched_tree.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

// The model of switches, which the layer fabric knows: NAME[,middle=M].
Result<std::string> model_of(const Options& options) {
  const std::string& model = options.text("switch");
  const int64_t middle = options.integer("middle");
  if (middle == 0) {
    return model;
  }
  if (model.empty()) {
    return invalid(
        fmt::format("switch_tree: option 'middle': {} is of no switch: name one that "
                    "takes it, as switch=fred",
                    middle));
  }
  return fmt::format("{},middle={}", model, middle);
}

Result<Topology> make_switch_tree(const std::string& name, const std::string& argument,
                                  const Options& options) {
  PLEACH_ASSIGN(tree, tree_of("switch_tree", options));
  PLEACH_SET(tree.fan_outs, parse_dimensions("switch_tree", argument));
  tree.rank_count =
      std::accumulate(tree.fan_outs.begin(), tree.fan_outs.end(), 1, std::multiplies<>());
  std::ranges::reverse(tree.fan_outs);
  tree.taper = static_cast<int32_t>(options.integer("taper"));
  PLEACH_SET(tree.node_switch.switch_model, model_of(options));
  tree.node_switch.reduces = options.text("reduce") == "true";
  tree.node_switch.multicasts = options.text("multicast") == "true";
  return make_switched_tree(name, tree);
}

std::vector<OptionDescriptor> options_of_tree() {
  std::vector<OptionDescriptor> options = tree_options("0", "16GB/s");
  const std::vector<OptionDescriptor> more = {
      {"switch", Kind::kText, "", "model of the switches: fred; empty: they carry whatever enters"},
      {"middle", Kind::kInteger, "0", "m of fred's switches; 0: what the model says"},
      flag_option("reduce", "the switches combine what comes from several links"),
      flag_option("multicast", "the switches copy to several links at once"),
      {"taper",
       Kind::kInteger,
       "1",
       "what a switch has down over what it has up",
       {},
       1,
       kShapeRankLimit},
  };
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

extern const Shape kSwitchTreeShape = {
    "switch_tree",
    "a tree of switches with ranks at the bottom: A below the top, B below each of those, ...",
    "AxBx...", options_of_tree(), make_switch_tree};

}  // namespace pleach
