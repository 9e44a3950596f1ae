#include "pleach/synthesis/spanning_trees.h"

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

// A tree in growth. Its parents of the current step are scanned once: within a step links and
// interfaces only become fewer and members more, so a parent that finds no child finds none later.
struct Tree {
  std::vector<uint64_t> members;  // bit set
  std::vector<int32_t> frontier;  // members that may have a way outside, in order of joining
  std::size_t parent_count = 0;   // of the frontier: members since before this step
  std::size_t scanned_count = 0;  // of the parents: find no more children in this step
  std::size_t kept_count = 0;     // of the scanned: stay in the frontier; moved to its front
  int32_t missing_count = 0;      // vertices outside

  bool has(int32_t vertex) const { return (members[at(vertex >> 6)] >> (vertex & 63) & 1) != 0; }
  void join(int32_t vertex) {
    members[at(vertex >> 6)] |= uint64_t{1} << (vertex & 63);
    frontier.push_back(vertex);
  }
  void begin_step() {
    frontier.erase(frontier.begin() + static_cast<std::ptrdiff_t>(kept_count),
                   frontier.begin() + static_cast<std::ptrdiff_t>(scanned_count));
    parent_count = frontier.size();
    scanned_count = kept_count = 0;
  }
};

// What a step has left: links, and what a vertex may still send and receive.
struct Room {
  std::vector<uint8_t> is_taken;  // by link
  int32_t free_link_count = 0;
  std::vector<int32_t> sends, receives;

  void begin_step(const TreeGraph& graph, int32_t interface_limit) {
    const int32_t limit = interface_limit > 0 ? interface_limit : INT32_MAX;
    is_taken.assign(at(graph.link_count), 0);
    free_link_count = graph.link_count;
    sends.assign(at(graph.vertex_count), limit);
    receives.assign(at(graph.vertex_count), limit);
  }
  bool admits(const TreeGraph::Arc& arc) const {
    return is_taken[arc.link.index()] == 0 && receives[at(arc.target)] > 0;
  }
  void take(std::span<const LinkId> way, int32_t parent, int32_t child) {
    for (const LinkId link : way) {
      is_taken[link.index()] = 1;
    }
    free_link_count -= count_of(way);
    --sends[at(parent)];
    --receives[at(child)];
  }
};

// Finds ways from a parent to a vertex outside its tree.
class WaySearch {
 public:
  explicit WaySearch(const TreeGraph& graph)
      : graph_(graph), last_search_(at(graph.node_count() - graph.vertex_count)) {
    for (int32_t node = graph.vertex_count; node < graph.node_count(); ++node) {
      is_leaf_.push_back(std::ranges::any_of(graph.arcs_of(node), [&](const TreeGraph::Arc& arc) {
        return arc.target < graph.vertex_count;
      }));
    }
  }

  struct Found {
    int32_t child = -1;       // way() leads there
    bool may_return = false;  // the parent may find some in a later step
  };
  // `passes_leaves`: ways go on behind switches that have vertices.
  Found find(const Tree& tree, int32_t parent, const Room& room, bool passes_leaves) {
    if (room.sends[at(parent)] == 0) {
      return {-1, true};
    }
    bool may_return = false;
    between_.clear();
    for (const TreeGraph::Arc& arc : graph_.arcs_of(parent)) {
      if (arc.target >= graph_.vertex_count) {
        may_return = true;
        if (room.is_taken[arc.link.index()] == 0) {
          between_.push_back({arc.target, arc.link, -1});
        }
      } else if (!tree.has(arc.target)) {
        if (room.admits(arc)) {
          way_.assign(1, arc.link);
          return {arc.target, true};
        }
        may_return = true;
      }
    }
    return between_.empty() ? Found{-1, may_return}
                            : Found{search_between(tree, room, passes_leaves), true};
  }
  std::span<const LinkId> way() const { return way_; }

 private:
  // A node between that the search has come to: by which link, and from which one before it.
  struct Passed {
    int32_t node = 0;
    LinkId link;
    int32_t before = -1;  // index in between_; -1: the parent
  };

  // The first vertex outside that is reached from the nodes between, breadth first; or -1.
  int32_t search_between(const Tree& tree, const Room& room, bool passes_leaves) {
    ++search_;
    std::erase_if(between_, [&](const Passed& one) { return !is_new(one.node); });
    for (int32_t next = 0; next < count_of(between_); ++next) {
      const auto [node, link, before] = between_[at(next)];
      const bool ends = before >= 0 && !passes_leaves && is_leaf_[at(node - graph_.vertex_count)];
      for (const TreeGraph::Arc& arc : graph_.arcs_of(node)) {
        if (arc.target < graph_.vertex_count) {
          if (!tree.has(arc.target) && room.admits(arc)) {
            trace(next, arc.link);
            return arc.target;
          }
        } else if (!ends && room.is_taken[arc.link.index()] == 0 && is_new(arc.target)) {
          between_.push_back({arc.target, arc.link, next});
        }
      }
    }
    return -1;
  }
  // Whether this search comes to the node for the first time.
  bool is_new(int32_t node) {
    return std::exchange(last_search_[at(node - graph_.vertex_count)], search_) != search_;
  }
  void trace(int32_t last, LinkId link) {
    way_.assign(1, link);
    for (int32_t back = last; back >= 0; back = between_[at(back)].before) {
      way_.push_back(between_[at(back)].link);
    }
    std::ranges::reverse(way_);
  }

  const TreeGraph& graph_;
  std::vector<bool> is_leaf_;  // by node between: it has arcs to vertices
  std::vector<Passed> between_;
  std::vector<int64_t> last_search_;  // by node between: the last one that came to it
  int64_t search_ = 0;
  std::vector<LinkId> way_;
};

class Grower {
 public:
  Grower(const TreeGraph& graph, const TreeOptions& options)
      : graph_(graph), options_(options), search_(graph) {
    const int32_t count = graph.vertex_count;
    trees_.resize(at(count));
    for (int32_t root = 0; root < count; ++root) {
      trees_[at(root)].members.resize(at(count + 63) / 64);
      trees_[at(root)].join(root);
      trees_[at(root)].missing_count = count - 1;
    }
    missing_count_ = int64_t{count} * (count - 1);
    result_.edges.reserve(at(missing_count_));
  }

  Trees run() && {
    while (missing_count_ > 0) {
      const int64_t before = missing_count_;
      run_step();
      if (missing_count_ == before) {
        passes_leaves_ = true;
        run_step();
        passes_leaves_ = false;
      }
      PLEACH_CHECK(missing_count_ < before, "every vertex reaches every other");
      ++result_.step_count;
    }
    return std::move(result_);
  }

 private:
  void run_step() {
    room_.begin_step(graph_, options_.interface_limit);
    for (Tree& tree : trees_) {
      tree.begin_step();
    }
    bool goes_on = true;
    while (goes_on && room_.free_link_count > 0 && missing_count_ > 0) {
      const std::vector<int32_t>& order =
          is_first_round_ ? options_.first_order : options_.later_order;
      bool added_any = false, added_last = false;
      for (const int32_t root : order) {
        check_interruption();
        added_last = add_edge(root);
        added_any = added_any || added_last;
      }
      is_first_round_ = false;
      goes_on = options_.ends_with_last_tree ? added_last : added_any;
    }
  }

  // One turn of a tree: whether it added an edge.
  bool add_edge(int32_t root) {
    Tree& tree = trees_[at(root)];
    if (tree.missing_count == 0) {
      return false;
    }
    for (; tree.scanned_count < tree.parent_count; ++tree.scanned_count) {
      check_interruption();
      const int32_t parent = tree.frontier[tree.scanned_count];
      const WaySearch::Found found = search_.find(tree, parent, room_, passes_leaves_);
      if (found.child >= 0) {
        attach(root, parent, found.child);
        return true;
      }
      if (found.may_return) {
        tree.frontier[tree.kept_count++] = parent;
      }
    }
    return false;
  }

  void attach(int32_t root, int32_t parent, int32_t child) {
    Tree& tree = trees_[at(root)];
    tree.join(child);
    --tree.missing_count;
    --missing_count_;
    const std::span<const LinkId> way = search_.way();
    room_.take(way, parent, child);
    result_.edges.push_back(
        {root, parent, child, result_.step_count, count_of(result_.links), count_of(way)});
    result_.links.insert(result_.links.end(), way.begin(), way.end());
  }

  const TreeGraph& graph_;
  const TreeOptions& options_;
  std::vector<Tree> trees_;  // by root
  int64_t missing_count_ = 0;
  Room room_;
  WaySearch search_;
  bool passes_leaves_ = false;
  bool is_first_round_ = true;
  Trees result_;
};

}  // namespace

Trees grow_trees(const TreeGraph& graph, const TreeOptions& options) {
  return Grower(graph, options).run();
}

}  // namespace pleach
