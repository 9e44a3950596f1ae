// Tree: down a tree that is rooted at the root, up it, or both.
#include <bit>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

struct Edge {
  int32_t parent = 0;  // numbers from the root on
  int32_t child = 0;
  int32_t step = 0;  // of a broadcast
};

struct Tree {
  std::vector<Edge> edges;
  int32_t step_count = 0;
};

// In step k everyone who has the data, 2^k of them, sends to the one 2^k further on.
Tree binomial_tree(int32_t rank_count) {
  Tree tree;
  for (int32_t child = 1; child < rank_count; ++child) {
    const auto step = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(child))) - 1;
    tree.edges.push_back({child - (1 << step), child, step});
    tree.step_count = step + 1;
  }
  return tree;
}

// Every node sends to its children at once, a step a level.
Tree full_tree(int32_t rank_count, int32_t arity) {
  Tree tree;
  std::vector<int32_t> depth = {0};
  for (int32_t child = 1; child < rank_count; ++child) {
    const int32_t parent = (child - 1) / arity;
    tree.edges.push_back({parent, child, depth[at(parent)]});
    depth.push_back(depth[at(parent)] + 1);
    tree.step_count = depth.back();
  }
  return tree;
}

Result<Schedule> along(const SynthesisRequest& request, const Tree& tree,
                       CollectiveKind collective) {
  ScheduleBuilder builder(request, collective, 1);
  const int32_t root = has_root(request.collective) ? request.root.value : 0;
  for (const Edge& edge : tree.edges) {
    const int32_t parent = (root + edge.parent) % builder.rank_count();
    const int32_t child = (root + edge.child) % builder.rank_count();
    if (collective == CollectiveKind::kBroadcast) {
      builder.send({.step = edge.step}, parent, child);
    } else {
      builder.send({.step = tree.step_count - 1 - edge.step, .op = TransferOp::kReduce}, child,
                   parent);
    }
  }
  return std::move(builder).finish({tree.step_count});
}

Result<Schedule> tree(const SynthesisRequest& request, const Options& options) {
  const auto arity = static_cast<int32_t>(options.integer("arity"));
  const int32_t rank_count = count_of(request.participants);
  const Tree shape = arity == 0 ? binomial_tree(rank_count) : full_tree(rank_count, arity);
  if (request.collective != CollectiveKind::kAllReduce) {
    return along(request, shape, request.collective);
  }
  PLEACH_ASSIGN(up, along(request, shape, CollectiveKind::kReduce));
  PLEACH_ASSIGN(down, along(request, shape, CollectiveKind::kBroadcast));
  return sequence(up, down, CollectiveKind::kAllReduce);
}

}  // namespace

extern const Algorithm kTree = {
    .name = "tree",
    .summary = "down a binomial or k-ary tree of the ranks, up it, or up and down",
    .source =
        "Thakur, Rabenseifner & Gropp 2005, sec. 4.2 (binomial); Pjesivac-Grbovic et al. "
        "2007 (k-ary, pipelined)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast,
                    CollectiveKind::kReduce},
    .options = {{.name = "arity",
                 .default_value = "0",
                 .summary = "children of a rank; 0: a binomial tree",
                 .most = 65'536}},
    .create = &tree,
};

}  // namespace pleach
