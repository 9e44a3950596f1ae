// Double binary tree: each half of the data up and down a tree of its own, where the ranks that are
// inside one tree are leaves of the other.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

struct Edge {
  int32_t parent = 0;
  int32_t child = 0;
  int32_t step = 0;  // on the way down
};

// Appends the edges of an in-order binary tree over the places [begin, end), parents before their
// children; inner nodes have odd places where `begin` is even. Returns its root.
int32_t add_tree(int32_t begin, int32_t end, std::vector<Edge>& edges) {
  const auto size = static_cast<uint32_t>(end - begin);
  if (size == 1) {
    return begin;
  }
  const int32_t root = begin + static_cast<int32_t>(std::bit_floor(size)) - 1;
  const auto add_child = [&](int32_t first, int32_t last) {
    const std::size_t edge = edges.size();
    edges.push_back({root, 0, 0});
    const int32_t child = add_tree(first, last, edges);
    edges[edge].child = child;
  };
  if (root > begin) {
    add_child(begin, root);
  }
  if (root + 1 < end) {
    add_child(root + 1, end);
  }
  return root;
}

using Trees = std::array<std::vector<Edge>, 2>;

// The second tree is the first one with the ranks in opposite order, or, where their number is odd,
// moved on by one: even places become odd ones, but for one.
Trees make_trees(int32_t rank_count) {
  Trees trees;
  add_tree(0, rank_count, trees[0]);
  trees[1] = trees[0];
  for (Edge& edge : trees[1]) {
    for (int32_t* end : {&edge.parent, &edge.child}) {
      *end = rank_count % 2 == 0 ? rank_count - 1 - *end : (*end + rank_count - 1) % rank_count;
    }
  }
  return trees;
}

// Colours all edges so that no rank sends two of one colour, nor receives two: a rank has two
// children in one tree at the most, and a parent in each. So the edges form paths and even cycles,
// from a sender over a receiver to a sender, along which colours alternate.
std::array<std::vector<int32_t>, 2> colours_of(const Trees& trees, int32_t rank_count) {
  struct Place {
    int32_t tree = 0, edge = 0;
  };
  std::vector<std::vector<Place>> sent(at(rank_count)), received(at(rank_count));
  std::array<std::vector<int32_t>, 2> colours;
  for (int32_t tree = 0; tree < 2; ++tree) {
    const std::vector<Edge>& edges = trees[at(tree)];
    colours[at(tree)].assign(edges.size(), -1);
    for (int32_t edge = 0; edge < count_of(edges); ++edge) {
      sent[at(edges[at(edge)].parent)].push_back({tree, edge});
      received[at(edges[at(edge)].child)].push_back({tree, edge});
    }
  }
  std::vector<Place> open;
  const auto give = [&](const Place& place, int32_t colour) {
    int32_t& given = colours[at(place.tree)][at(place.edge)];
    if (given < 0) {
      given = colour;
      open.push_back(place);
    }
  };
  for (int32_t tree = 0; tree < 2; ++tree) {
    for (int32_t edge = 0; edge < count_of(trees[at(tree)]); ++edge) {
      give({tree, edge}, 0);
      while (!open.empty()) {
        const Place place = open.back();
        open.pop_back();
        const Edge& own = trees[at(place.tree)][at(place.edge)];
        const int32_t other = 1 - colours[at(place.tree)][at(place.edge)];
        for (const Place& next : sent[at(own.parent)]) {
          give(next, other);
        }
        for (const Place& next : received[at(own.child)]) {
          give(next, other);
        }
      }
    }
  }
  return colours;
}

// A rank passes on in the first step of the edge's colour after it has received. Returns the number
// of steps.
int32_t set_steps(Trees& trees, int32_t rank_count) {
  const auto colours = colours_of(trees, rank_count);
  int32_t step_count = 0;
  for (int32_t tree = 0; tree < 2; ++tree) {
    std::vector<int32_t> has_from(at(rank_count));  // the first step in which a rank may send
    for (std::size_t edge = 0; edge < trees[at(tree)].size(); ++edge) {
      Edge& own = trees[at(tree)][edge];
      own.step = has_from[at(own.parent)];
      own.step += (own.step + colours[at(tree)][edge]) % 2;
      has_from[at(own.child)] = own.step + 1;
      step_count = std::max(step_count, own.step + 1);
    }
  }
  return step_count;
}

// In four steps a rank sends half of a segment up and down both trees: as often segments follow.
Result<Schedule> double_binary_tree(const SynthesisRequest& request, const Options& /*options*/) {
  ScheduleBuilder builder(request, CollectiveKind::kAllReduce, 2);
  Trees trees = make_trees(builder.rank_count());
  const int32_t step_count = set_steps(trees, builder.rank_count());
  for (int32_t tree = 0; tree < 2; ++tree) {
    for (const auto& [parent, child, step] : trees[at(tree)]) {
      builder.send({tree, 1, step_count - 1 - step, TransferOp::kReduce}, child, parent);
      builder.send({tree, 1, step_count + step, TransferOp::kCopy}, parent, child);
    }
  }
  return std::move(builder).finish({step_count, step_count}, std::min(4, 2 * step_count));
}

}  // namespace

extern const Algorithm kDoubleBinaryTree = {
    .name = "double_binary_tree",
    .summary = "each half of the data up and down a binary tree; inside one, a leaf of the other",
    .source =
        "Sanders, Speck & Traeff 2009 (Two-tree algorithms for full bandwidth broadcast, "
        "reduction and scan)",
    .collectives = {CollectiveKind::kAllReduce},
    .options = {},
    .create = &double_binary_tree,
};

}  // namespace pleach
