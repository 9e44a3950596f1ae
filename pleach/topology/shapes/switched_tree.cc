#include "pleach/topology/shapes/switched_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

// Nodes of one level, ranks or switches, with what is below them.
struct Level {
  int32_t number = 0;         // 0: ranks
  std::vector<NodeId> nodes;  // of the topmost: all that share its work
  std::vector<int32_t> ranks_below;
  std::vector<int64_t> bytes_per_s;  // of the links down, I/O left out
};

class TreeBuilder {
 public:
  TreeBuilder(const std::string& name, const SwitchedTree& tree) : tree_(tree), builder_(name) {
    builder_.set_framing(tree.settings.framing);
  }

  Result<Topology> build() && {
    PLEACH_TRY(add_ranks());
    for (const int32_t fan_out : tree_.fan_outs) {
      PLEACH_TRY(add_level(fan_out));
    }
    PLEACH_TRY(add_cables());
    return std::move(builder_).build();
  }

 private:
  bool is_topmost(int32_t level) const { return level == count_of(tree_.fan_outs); }

  Status add_ranks() {
    Level& ranks = levels_.emplace_back();
    for (int32_t rank = 0; rank < tree_.rank_count; ++rank) {
      PLEACH_ASSIGN(id, builder_.add_node(tree_.settings.rank(false)));
      ranks.nodes.push_back(id);
    }
    ranks.ranks_below.assign(at(tree_.rank_count), 1);
    return ok();
  }

  // What a node has up: of switches that share the work, together.
  int64_t up_bytes_per_s(const Level& level, int32_t index) const {
    return level.number == 0 ? tree_.settings.bandwidth_bytes_per_s
                             : std::max<int64_t>(level.bytes_per_s[at(index)] / tree_.taper, 1);
  }

  Status add_level(int32_t fan_out) {
    const Level& below = levels_.back();
    Level level{below.number + 1, {}, {}, {}};
    const int32_t child_count = count_of(below.ranks_below);
    for (int32_t first = 0; first < child_count; first += fan_out) {
      const int32_t end = std::min(first + fan_out, child_count);
      __int128 bytes_per_s = 0;
      level.ranks_below.push_back(0);
      for (int32_t child = first; child < end; ++child) {
        level.ranks_below.back() += below.ranks_below[at(child)];
        bytes_per_s += up_bytes_per_s(below, child);
      }
      level.bytes_per_s.push_back(static_cast<int64_t>(std::min<__int128>(bytes_per_s, INT64_MAX)));
      if (level.number > 1 && is_topmost(level.number) && end - first < 2) {
        return invalid(fmt::format(
            "{}: {} ranks leave one switch below the topmost of {} levels: take fewer levels",
            tree_.shape, tree_.rank_count, level.number));
      }
    }
    const int32_t count = is_topmost(level.number) ? tree_.top_count : count_of(level.ranks_below);
    for (int32_t number = 0; number < count; ++number) {
      Node node = tree_.node_switch;
      node.name = fmt::format("l{}.{}", level.number, number);
      PLEACH_ASSIGN(id, builder_.add_node(std::move(node)));
      level.nodes.push_back(id);
    }
    levels_.push_back(std::move(level));
    return ok();
  }

  Status add_cables() {
    const Level& ranks = levels_.front();
    for (int32_t rank = 0; rank < tree_.rank_count; ++rank) {
      PLEACH_TRY(builder_.add_cable(tree_.settings.link(
          ranks.nodes[at(rank)], levels_[1].nodes[at(rank / tree_.fan_outs[0])])));
    }
    PLEACH_TRY(add_io());
    for (int32_t level = 1; !is_topmost(level); ++level) {
      for (int32_t number = 0; number < count_of(levels_[at(level)].nodes); ++number) {
        PLEACH_TRY(add_trunk(levels_[at(level)], number));
      }
    }
    return ok();
  }

  Status add_io() {
    const std::vector<NodeId>& switches = levels_[1].nodes;
    const int32_t each = tree_.io_count / count_of(switches);
    const int32_t with_one_more = tree_.io_count % count_of(switches);
    int32_t io_number = 0;
    std::vector<Link> cables;
    for (int32_t number = 0; number < count_of(switches); ++number) {
      for (int32_t k = 0; k < each + (number < with_one_more ? 1 : 0); ++k) {
        PLEACH_ASSIGN(io, builder_.add_node(tree_.io.io(fmt::format("io{}", io_number++))));
        cables.push_back(tree_.io.link(io, switches[at(number)]));
      }
    }
    for (const Link& cable : cables) {
      PLEACH_TRY(builder_.add_cable(cable));
    }
    return ok();
  }

  // To switches that share the work go shares of the lanes and, by them, of the bandwidth.
  Status add_trunk(const Level& level, int32_t number) {
    const Level& above = levels_[at(level.number) + 1];
    const bool is_shared = is_topmost(above.number);
    const int32_t target = is_shared ? 0 : number / tree_.fan_outs[at(level.number)];
    const int32_t parts = is_shared ? tree_.top_count : 1;
    const int32_t lanes = tree_.lanes > 0 ? tree_.lanes : level.ranks_below[at(number)];
    if (lanes < parts) {
      return invalid(fmt::format("{}: l{}.{} has {} lane up, for {} topmost switches", tree_.shape,
                                 level.number, number, lanes, parts));
    }
    const auto bytes_per_s = static_cast<__int128>(up_bytes_per_s(level, number));
    for (int32_t part = 0; part < parts; ++part) {
      Link trunk{level.nodes[at(number)], above.nodes[at(target + part)]};
      trunk.lanes = lanes / parts + (part < lanes % parts ? 1 : 0);
      trunk.bandwidth_bytes_per_s =
          std::max<int64_t>(static_cast<int64_t>(bytes_per_s * trunk.lanes / lanes), 1);
      trunk.latency_ps = tree_.trunk_latency_ps;
      PLEACH_TRY(builder_.add_cable(trunk));
    }
    return ok();
  }

  const SwitchedTree& tree_;
  TopologyBuilder builder_;
  std::vector<Level> levels_;
};

}  // namespace

std::vector<OptionDescriptor> tree_options(const std::string& io_count,
                                           const std::string& io_bandwidth) {
  return {
      switch_latency_option(),
      {"trunk_latency", Kind::kText, "", "of each link between switches; empty: as latency"},
      {"lanes",
       Kind::kInteger,
       "0",
       "ports of a trunk at each end; 0: as many as ranks below it",
       {},
       0,
       kMostLanes},
      {"io",
       Kind::kInteger,
       io_count,
       "I/O nodes, at the switches of ranks",
       {},
       0,
       kShapeRankLimit},
      io_bandwidth_option(io_bandwidth),
      io_latency_option(),
  };
}

Result<SwitchedTree> tree_of(const std::string& shape, const Options& options) {
  SwitchedTree tree;
  tree.shape = shape;
  PLEACH_SET(tree.settings, switched_settings(options));
  PLEACH_SET(tree.io, io_settings(shape, tree.settings, options));
  PLEACH_SET(tree.trunk_latency_ps,
             time_or(shape, options, "trunk_latency", tree.settings.latency_ps));
  tree.node_switch = tree.settings.plain_switch("");
  tree.io_count = static_cast<int32_t>(options.integer("io"));
  tree.lanes = static_cast<int32_t>(options.integer("lanes"));
  return tree;
}

Result<Topology> make_switched_tree(const std::string& name, const SwitchedTree& tree) {
  return TreeBuilder(name, tree).build();
}

}  // namespace pleach
