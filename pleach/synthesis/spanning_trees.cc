#include "pleach/synthesis/spanning_trees.h"

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

// A tree in growth. Its parents of the current step are scanned once: within a step links and
// interfaces only become fewer and members more, so a parent that finds no child finds none later.
struct Tree {
  std::vector<uint64_t> members;  // bit set
  std::vector<int32_t> frontier;  // members with an arc to a vertex outside, in order of joining
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

class Grower {
 public:
  Grower(const TreeGraph& graph, const TreeOptions& options) : graph_(graph), options_(options) {
    const int32_t count = graph.vertex_count();
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
      PLEACH_CHECK(missing_count_ < before, "every vertex reaches every other");
      ++result_.step_count;
    }
    return std::move(result_);
  }

 private:
  void run_step() {
    const std::size_t count = trees_.size();
    is_taken_.assign(at(graph_.link_count), 0);
    free_link_count_ = graph_.link_count;
    const int32_t limit = options_.interface_limit > 0 ? options_.interface_limit : INT32_MAX;
    send_slots_.assign(count, limit);
    receive_slots_.assign(count, limit);
    for (Tree& tree : trees_) {
      tree.begin_step();
    }
    bool goes_on = true;
    while (goes_on && free_link_count_ > 0 && missing_count_ > 0) {
      const std::vector<int32_t>& order =
          is_first_round_ ? options_.first_order : options_.later_order;
      bool added_any = false, added_last = false;
      for (const int32_t root : order) {
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
      const int32_t parent = tree.frontier[tree.scanned_count];
      const Search found = find_child(tree, parent);
      if (found.arc != nullptr) {
        attach(root, parent, *found.arc);
        return true;
      }
      if (found.may_return) {
        tree.frontier[tree.kept_count++] = parent;
      }
    }
    return false;
  }

  struct Search {
    const TreeGraph::Arc* arc = nullptr;
    bool may_return = false;  // in a later step
  };
  Search find_child(const Tree& tree, int32_t parent) const {
    if (send_slots_[at(parent)] == 0) {
      return {nullptr, true};
    }
    bool may_return = false;
    for (int32_t index = graph_.first[at(parent)]; index < graph_.first[at(parent + 1)]; ++index) {
      const TreeGraph::Arc& arc = graph_.arcs[at(index)];
      if (tree.has(arc.target)) {
        continue;
      }
      if (is_taken_[at(arc.link)] == 0 && receive_slots_[at(arc.target)] > 0) {
        return {&arc, true};
      }
      may_return = true;
    }
    return {nullptr, may_return};
  }

  void attach(int32_t root, int32_t parent, const TreeGraph::Arc& arc) {
    Tree& tree = trees_[at(root)];
    tree.join(arc.target);
    --tree.missing_count;
    --missing_count_;
    is_taken_[at(arc.link)] = 1;
    --free_link_count_;
    --send_slots_[at(parent)];
    --receive_slots_[at(arc.target)];
    result_.edges.push_back({root, parent, arc.target, arc.link, result_.step_count});
  }

  const TreeGraph& graph_;
  const TreeOptions& options_;
  std::vector<Tree> trees_;  // by root
  int64_t missing_count_ = 0;
  std::vector<uint8_t> is_taken_;  // by link, in this step
  int32_t free_link_count_ = 0;
  std::vector<int32_t> send_slots_, receive_slots_;  // left in this step, by vertex
  bool is_first_round_ = true;
  Trees result_;
};

}  // namespace

Trees grow_trees(const TreeGraph& graph, const TreeOptions& options) {
  return Grower(graph, options).run();
}

}  // namespace pleach
