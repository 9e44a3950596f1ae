// FRED's wafer: accelerators below two levels of switches that reduce and distribute.
#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/text.h"
#include "pleach/topology/shapes/switched_tree.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

struct Variant {
  int32_t taper = 1;  // what NPUs have together over what the trunk above them has
  bool in_network = false;
};

Result<Variant> variant_of(const std::string& argument) {
  const std::vector<std::pair<std::string, Variant>> variants = {
      {"A", {8, false}}, {"B", {8, true}}, {"C", {1, false}}, {"D", {1, true}}};
  std::vector<std::string> names;
  for (const auto& [name, variant] : variants) {
    if (name == argument) {
      return variant;
    }
    names.push_back(name);
  }
  return invalid("fred: " + unknown_name("variant", argument, names).message);
}

// The wafer is built as so many equal planes, each with a share of every link but for that alike.
// The topmost switch of a plane is two.
constexpr int32_t kPlaneCount = 5;
constexpr int32_t kPlaneTopCount = 2;

Status make_plane(SwitchedTree& tree) {
  if (tree.fan_outs.size() != 2) {
    return invalid(fmt::format("fred: view=plane has two levels, and levels={} is given",
                               tree.fan_outs.size()));
  }
  for (ShapeSettings* settings : {&tree.settings, &tree.io}) {
    int64_t& bytes_per_s = settings->bandwidth_bytes_per_s;
    bytes_per_s = std::max<int64_t>(bytes_per_s / kPlaneCount, 1);
  }
  tree.top_count = kPlaneTopCount;
  return ok();
}

Result<Topology> make_fred(const std::string& name, const std::string& argument,
                           const Options& options) {
  PLEACH_ASSIGN(variant, variant_of(argument));
  PLEACH_ASSIGN(tree, tree_of("fred", options));
  tree.rank_count = static_cast<int32_t>(options.integer("npus"));
  const auto levels = options.integer("levels");
  tree.fan_outs.assign(static_cast<std::size_t>(levels - 1),
                       static_cast<int32_t>(options.integer("radix")));
  tree.fan_outs.push_back(tree.rank_count);  // all that there are
  const auto taper = static_cast<int32_t>(options.integer("taper"));
  tree.taper = taper > 0 ? taper : variant.taper;
  tree.node_switch.switch_model = fmt::format("fred,middle={}", options.integer("middle"));
  tree.node_switch.reduces = tree.node_switch.multicasts = variant.in_network;
  if (options.text("view") == "plane") {
    PLEACH_TRY(make_plane(tree));
  }
  return make_switched_tree(name, tree);
}

std::vector<OptionDescriptor> fred_options() {
  std::vector<OptionDescriptor> options = {
      {"bandwidth", Kind::kBandwidth, "3TB/s", "of an NPU's link"},
      {"latency", Kind::kTime, "20ns", "of each link"},
      {"npus", Kind::kInteger, "20", "accelerators, the ranks", {}, 2, kShapeRankLimit},
      {"radix",
       Kind::kInteger,
       "4",
       "NPUs below a switch, and switches below one; the topmost has all that are left",
       {},
       1,
       kShapeRankLimit},
      {"levels", Kind::kInteger, "2", "of switches", {}, 1, kShapeDimensionLimit},
      {"middle", Kind::kInteger, "3", "subnetworks in the middle of a switch, m", {}, 2},
      {"taper",
       Kind::kInteger,
       "0",
       "what a switch has down, I/O left out, over what it has up; 0: 8 of A and B, 1 of C and D",
       {},
       0,
       kShapeRankLimit},
      {"view",
       Kind::kChoice,
       "logical",
       "all of it as one tree, or one of the five equal planes that it is built of",
       {"logical", "plane"}},
  };
  const std::vector<OptionDescriptor> common = tree_options("18", "128GB/s");
  options.insert(options.end(), common.begin(), common.end());
  return options;
}

}  // namespace

extern const Shape kFredShape = {
    "fred",
    "FRED's wafer: a tree of switches over 20 NPUs; trunks of A and B are narrow, B and D reduce "
    "and multicast",
    "A|B|C|D", fred_options(), make_fred};

}  // namespace pleach
