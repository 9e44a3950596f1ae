#include <fmt/format.h>

#include "pleach/base/index.h"
#include "pleach/topology/shapes/common.h"

namespace pleach {
namespace {

// Switches have `radix` ports down and `radix` up, the topmost all ports down. A switch of level l
// (leaves: 0) reaches radix^(l+1) ranks, its block, as radix^l of them do; the topmost reach all.
struct FatTree {
  int32_t rank_count = 0;
  int32_t radix = 0;
  int32_t level_count = 0;

  bool is_top(int32_t level) const { return level + 1 == level_count; }
  // Switches of a block.
  int32_t width(int32_t level) const { return level == 0 ? 1 : radix * width(level - 1); }
  int32_t block_count(int32_t level) const {
    return is_top(level) ? 1 : rank_count / width(level + 1);
  }
  std::string switch_name(int32_t level) const {
    return level == 0         ? "leaf"
           : level_count == 2 ? "spine"
           : is_top(level)    ? "core"
                              : "aggregation";
  }
};

Result<FatTree> parse_fat_tree(const std::string& argument, const Options& options) {
  FatTree tree;
  PLEACH_SET(tree.rank_count, parse_rank_count("fat_tree", argument));
  tree.radix = static_cast<int32_t>(options.integer("radix"));
  const int64_t most_on_two = 2 * int64_t{tree.radix} * tree.radix;
  const std::string& levels = options.text("levels");
  const bool has_three = levels == "3" || (levels == "auto" && tree.rank_count > most_on_two);
  tree.level_count = has_three ? 3 : 2;
  const int64_t block = has_three ? int64_t{tree.radix} * tree.radix : tree.radix;
  const int64_t most = 2 * block * tree.radix;
  if (tree.rank_count % block != 0 || tree.rank_count < 2 * block || tree.rank_count > most) {
    return invalid(
        fmt::format("fat_tree: {} ranks on {} levels of radix {}: it takes a multiple of "
                    "{}, from {} to {}",
                    tree.rank_count, tree.level_count, tree.radix, block, 2 * block, most));
  }
  return tree;
}

Result<Topology> make_fat_tree(const std::string& name, const std::string& argument,
                               const Options& options) {
  PLEACH_ASSIGN(settings, switched_settings(options));
  PLEACH_ASSIGN(tree, parse_fat_tree(argument, options));
  TopologyBuilder builder(name);
  builder.set_framing(settings.framing);
  for (int32_t rank = 0; rank < tree.rank_count; ++rank) {
    PLEACH_TRY(builder.add_node(settings.rank(false)));
  }
  std::vector<int32_t> first;  // switch of each level
  int32_t node_count = tree.rank_count;
  for (int32_t level = 0; level < tree.level_count; ++level) {
    first.push_back(node_count);
    const int32_t switch_count = tree.block_count(level) * tree.width(level);
    node_count += switch_count;
    for (int32_t number = 0; number < switch_count; ++number) {
      PLEACH_TRY(builder.add_node(
          settings.plain_switch(fmt::format("{}{}", tree.switch_name(level), number))));
    }
  }
  for (int32_t rank = 0; rank < tree.rank_count; ++rank) {
    const NodeId leaf{first[0] + rank / tree.radix};
    PLEACH_TRY(builder.add_cable(settings.link(NodeId{rank}, leaf)));
  }
  // Switch p of a block goes up to switches p·radix ... of the block around it.
  for (int32_t level = 0; !tree.is_top(level); ++level) {
    const int32_t width = tree.width(level);
    for (int32_t number = 0; number < tree.block_count(level) * width; ++number) {
      const int32_t block = tree.is_top(level + 1) ? 0 : number / width / tree.radix;
      const int32_t above = first[at(level) + 1] + block * tree.width(level + 1);
      for (int32_t port = 0; port < tree.radix; ++port) {
        PLEACH_TRY(
            builder.add_cable(settings.link(NodeId{first[at(level)] + number},
                                            NodeId{above + number % width * tree.radix + port})));
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace

extern const Shape kFatTreeShape = {
    "fat_tree",
    "ranks on leaf switches, with as many cables up as down at every switch",
    "N",
    {link_option("ib_ndr", "the kind of all links"),
     switch_latency_option(),
     {.name = "radix",
      .default_value = "8",
      .summary = "cables down, and up, of a switch",
      .least = 1,
      .most = 1024},
     {.name = "levels",
      .kind = OptionDescriptor::Kind::kChoice,
      .default_value = "auto",
      .summary = "of switches; auto: as few as switches of 2*radix ports allow",
      .allowed = {"auto", "2", "3"}}},
    make_fat_tree};

}  // namespace pleach
