// Tree: down a tree that is rooted at the root, up it, or both.
#include <fmt/format.h>

#include <bit>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
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

// Of the ranks [begin, end) `head` holds all shards (of a scatter), the others nothing: it sends
// one half of them, the one without it, to that half's first rank, and both go on. A gather runs
// backwards.
struct Halving {
  ScheduleBuilder& builder;
  bool is_gather = false;
  int32_t step_count = 0;

  void split(int32_t begin, int32_t end, int32_t head, int32_t step) {
    if (end - begin < 2) {
      return;
    }
    const int32_t middle = begin + (end - begin + 1) / 2;
    const bool keeps_first = head < middle;
    const int32_t first = keeps_first ? middle : begin;
    const int32_t last = keeps_first ? end : middle;
    if (is_gather) {
      builder.send({first, last - first, step_count - 1 - step}, first, head);
    } else {
      builder.send({first, last - first, step}, head, first);
    }
    split(begin, middle, keeps_first ? head : first, step + 1);
    split(middle, end, keeps_first ? first : head, step + 1);
  }
};

Result<Schedule> move_shards(const SynthesisRequest& request) {
  const int32_t rank_count = count_of(request.participants);
  ScheduleBuilder builder(request, request.collective, rank_count);
  const auto step_count =
      static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(rank_count - 1)));
  Halving{builder, request.collective == CollectiveKind::kGather, step_count}.split(
      0, rank_count, request.root.value, 0);
  return std::move(builder).finish({step_count});
}

Result<Schedule> tree(const SynthesisRequest& request, const Options& options) {
  const auto arity = static_cast<int32_t>(options.integer("arity"));
  const int32_t rank_count = count_of(request.participants);
  if (has_parts(request.collective)) {
    return arity == 0 ? move_shards(request)
                      : invalid(fmt::format("arity={} is not for {}, whose tree is binomial", arity,
                                            to_text(request.collective)));
  }
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
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kBroadcast, CollectiveKind::kReduce,
                    CollectiveKind::kGather, CollectiveKind::kScatter},
    .options = {{.name = "arity",
                 .default_value = "0",
                 .summary = "children of a rank; 0: a binomial tree",
                 .most = 65'536}},
    .create = &tree,
};

}  // namespace pleach
