// hierarchical: a collective level by level, each by an algorithm of its own.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/hierarchy.h"
#include "pleach/synthesis/ring_order.h"
#include "pleach/synthesis/route_finder.h"
#include "pleach/synthesis/shares.h"
#include "pleach/topology/changes.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

constexpr int32_t kDirectLimit = 64;  // ranks that all exchange with all by default

// The schedules of one level's groups for one phase; those of the group with the k-th smallest
// places are groups[k]. Empty where the collective does not go through the phase.
struct Phase {
  std::vector<Schedule> groups;
  int32_t step_count = 0;
  int32_t chunk_count = 1;  // of every group's schedule
};

struct Level {
  int32_t size = 1;
  int32_t stride = 1;  // between the places of neighbours
  std::string algorithm;
  int32_t stripes = 1;  // of each transfer, by ways of their own
  Phase scatter = {}, gather = {};
  Phase all_reduce = {};  // in place of both, where it is the last

  // The place of member 0 of a group, and the place of a member of the group of a place.
  int32_t base(int32_t group) const { return group / stride * stride * size + group % stride; }
};

struct Plan {
  const SynthesisRequest& request;
  Topology topology;  // the request's; its transfers are routed when all of them are known
  Hierarchy hierarchy;
  std::vector<Level> levels;
  std::vector<std::vector<int32_t>> orders;  // of each part of the buffer: levels, first to last
  std::vector<int64_t> shares;               // of each part; empty: equal ones

  int32_t rank_count() const { return count_of(request.participants); }
  bool scatters() const { return request.collective != CollectiveKind::kAllGather; }
  bool gathers() const { return request.collective != CollectiveKind::kReduceScatter; }
  // In an all_reduce a part is an interval; else the shard of every rank has some of each.
  int32_t part_of(int32_t chunk, int32_t fineness) const {
    return request.collective == CollectiveKind::kAllReduce ? chunk / (rank_count() * fineness)
                                                            : chunk / fineness % count_of(orders);
  }
  // Parts of no share are none.
  void share_out(const std::vector<int64_t>& wanted) {
    std::vector<std::vector<int32_t>> kept;
    for (std::size_t part = 0; part < wanted.size(); ++part) {
      if (wanted[part] > 0) {
        kept.push_back(orders[part]);
        shares.push_back(wanted[part]);
      }
    }
    orders = std::move(kept);
    if (std::ranges::all_of(shares, [&](int64_t share) { return share == shares[0]; })) {
      shares.clear();
    }
  }
};

std::vector<NodeId> members(const Plan& plan, const Level& level, int32_t group) {
  std::vector<NodeId> nodes;
  for (int32_t member = 0; member < level.size; ++member) {
    const int32_t place = level.base(group) + member * level.stride;
    nodes.push_back(plan.request.participants[at(plan.hierarchy.rank_at[at(place)])]);
  }
  return nodes;
}

// Where every two are equally near, all exchange with all; else they form a ring.
std::string usual_algorithm(const Plan& plan, const Level& level) {
  const std::vector<NodeId> nodes = members(plan, level, 0);
  Router router(plan.request.topology);
  const int32_t distance = router.distance(nodes[0], nodes.back());
  for (std::size_t first = 0; first < nodes.size() && level.size <= kDirectLimit; ++first) {
    for (std::size_t second = 0; second < nodes.size(); ++second) {
      if (first != second && router.distance(nodes[first], nodes[second]) != distance) {
        return "bidirectional_ring";
      }
    }
  }
  return level.size <= kDirectLimit ? "direct" : "ring";
}

Result<Phase> make_phase(const Plan& plan, const Level& level, CollectiveKind collective) {
  Phase phase;
  for (int32_t group = 0; group < plan.rank_count() / level.size; ++group) {
    const SynthesisRequest request{.topology = plan.topology,
                                   .participants = members(plan, level, group),
                                   .collective = collective,
                                   .wants_certificate = false};
    PLEACH_ASSIGN(schedule, synthesize(request, level.algorithm));
    if (schedule.symmetry) {
      PLEACH_SET(schedule, expand(schedule, &plan.topology));
    }
    const int32_t chunks = schedule.chunks.count();
    const bool is_first = phase.groups.empty();
    if (!schedule.chunks.is_uniform() || (!is_first && chunks != phase.chunk_count) ||
        (collective != CollectiveKind::kAllReduce && chunks % level.size != 0)) {
      return Error{ErrorCode::kInfeasible,
                   fmt::format("{} cuts the buffer of {} ranks into unequal chunks",
                               level.algorithm, level.size)};
    }
    phase.chunk_count = chunks;
    phase.step_count = std::max(phase.step_count, schedule.step_count());
    phase.groups.push_back(std::move(schedule));
  }
  return phase;
}

// Whether the algorithm of a level chose a way of its own: one of parallel links, or through
// switches.
bool is_chosen(Router& router, const Transfer& transfer, std::span<const LinkId> links) {
  const auto usual = router.route(transfer.source, transfer.target);
  return usual && !std::ranges::equal(*usual, links);
}

// The fewest ways side by side that any transfer of a phase has; 1 where the algorithm chose some.
int32_t narrowest_way(const Plan& plan, const Phase& phase) {
  Router router(plan.topology);
  int32_t least = kStripeLimit;
  for (const Schedule& schedule : phase.groups) {
    for (const Transfer& transfer : schedule.transfers) {
      check_interruption();
      const bool has_chosen = is_chosen(router, transfer, schedule.routes[transfer.route]);
      const int32_t ways = has_chosen ? 1 : router.ways_out(transfer.source, transfer.target);
      least = std::min(least, std::max(ways, 1));
    }
  }
  return least;
}

// Writes the transfers of a plan. The buffer is cut in parts, which take the levels in different
// orders, and a part in rank_count · fineness units, numbered by the digits of the rank that owns
// them after the reduce_scatter: the digit of the level that comes first counts most. So what a
// group works on is an interval of units.
class Writer {
 public:
  Writer(const Plan& plan, int32_t fineness)
      : plan_(plan),
        fineness_(fineness),
        router_(plan.topology),
        builder_(plan.request, plan.request.collective,
                 plan.rank_count() * fineness * count_of(plan.orders)) {
    for (const Level& level : plan.levels) {
      for (const Schedule& group : level.all_reduce.groups) {
        if (group.fold_order == FoldOrder::kByRank) {
          builder_.fold_by_rank();
        }
      }
    }
    if (!plan.shares.empty()) {
      std::vector<int64_t> weights;
      for (int32_t chunk = 0; chunk < plan.rank_count() * fineness * count_of(plan.orders);
           ++chunk) {
        weights.push_back(plan.shares[at(plan.part_of(chunk, fineness))]);
      }
      builder_.weigh(std::move(weights));
    }
  }

  void write_part(int32_t part) {
    const std::vector<int32_t>& order = plan_.orders[at(part)];
    int32_t step = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Level& level = plan_.levels[at(order[k])];
      write_phase(part, k, level.scatter, step);
      write_phase(part, k, level.all_reduce, step);
    }
    for (std::size_t k = order.size(); k-- > 0;) {
      write_phase(part, k, plan_.levels[at(order[k])].gather, step);
    }
  }

  Result<Schedule> finish() && {
    int32_t scatter = 0, gather = 0;
    for (const Level& level : plan_.levels) {
      scatter += level.scatter.step_count + level.all_reduce.step_count;
      gather += level.gather.step_count;
    }
    std::vector<int32_t> phases;
    for (const int32_t steps : {scatter, gather}) {
      if (steps > 0) {
        phases.push_back(steps);
      }
    }
    return std::move(builder_).finish(std::move(phases));
  }

 private:
  // The k-th level of a part's order, from `step` on, which it moves.
  void write_phase(int32_t part, std::size_t k, const Phase& phase, int32_t& step) {
    const std::vector<int32_t>& order = plan_.orders[at(part)];
    const Level& level = plan_.levels[at(order[k])];
    for (int32_t group = 0; group < count_of(phase.groups); ++group) {
      // The digits of the levels before say which units the group has.
      int32_t first = 0, count = plan_.rank_count() * fineness_;
      for (std::size_t before = 0; before < k; ++before) {
        const Level& done = plan_.levels[at(order[before])];
        count /= done.size;
        first += level.base(group) / done.stride % done.size * count;
      }
      const Schedule& schedule = phase.groups[at(group)];
      for (const Transfer& transfer : schedule.transfers) {
        check_interruption();
        const int32_t unit = count / phase.chunk_count;
        Transfer placed = transfer;
        placed.first_chunk = first + transfer.first_chunk * unit;
        placed.chunk_count = transfer.chunk_count * unit / level.stripes;
        placed.step = step + transfer.step;
        for (int32_t stripe = 0; stripe < level.stripes; ++stripe) {
          placed.route = route_of(transfer, schedule.routes[transfer.route], stripe);
          add(part, placed);
          placed.first_chunk += placed.chunk_count;
        }
      }
    }
    step += phase.step_count;
  }

  // One message for the units of each owner, or for all where owners do not matter.
  void add(int32_t part, const Transfer& placed) {
    int32_t first = placed.first_chunk;
    const int32_t count = placed.chunk_count;
    if (plan_.request.collective == CollectiveKind::kAllReduce) {
      first += part * plan_.rank_count() * fineness_;
      builder_.add({first, count, placed.step, placed.op}, placed.source, placed.target,
                   placed.route);
      return;
    }
    for (int32_t end = first + count; first < end;) {
      const int32_t owner = first / fineness_, within = first % fineness_;
      const int32_t some = std::min(end - first, fineness_ - within);
      const int32_t parts = count_of(plan_.orders);
      const int32_t chunk = (owner_of(part, owner) * parts + part) * fineness_ + within;
      builder_.add({chunk, some, placed.step, placed.op}, placed.source, placed.target,
                   placed.route);
      first += some;
    }
  }

  // The way that the algorithm of the level chose; or what the topology says.
  int32_t route_of(const Transfer& transfer, std::span<const LinkId> links, int32_t stripe) {
    return is_chosen(router_, transfer, links)
               ? builder_.route(links)
               : builder_.route(transfer.source, transfer.target, stripe);
  }

  // The rank whose digits, in the part's order of levels, make `number`.
  int32_t owner_of(int32_t part, int32_t number) const {
    int32_t place = 0;
    const std::vector<int32_t>& order = plan_.orders[at(part)];
    for (std::size_t k = order.size(); k-- > 0;) {
      const Level& level = plan_.levels[at(order[k])];
      place += number % level.size * level.stride;
      number /= level.size;
    }
    return plan_.hierarchy.rank_at[at(place)];
  }

  const Plan& plan_;
  int32_t fineness_;
  Router router_;
  ScheduleBuilder builder_;
};

// Ranks of one level in the order in which a ring goes around them: on a part of a grid row by row,
// every other one backwards.
Hierarchy one_level(const SynthesisRequest& request) {
  const int32_t rank_count = count_of(request.participants);
  Hierarchy hierarchy{.sizes = {rank_count}, .rank_at = {}};
  if (request.topology.grid().empty()) {
    hierarchy.rank_at.resize(at(rank_count));
    std::iota(hierarchy.rank_at.begin(), hierarchy.rank_at.end(), 0);
    return hierarchy;
  }
  const RankOfNode rank_of(request.participants);
  for (const int32_t node : grid_snake(request.topology.grid())) {
    if (rank_of(NodeId{node}) != kNoRank) {
      hierarchy.rank_at.push_back(rank_of(NodeId{node}));
    }
  }
  return hierarchy;
}

// Where groups are of different sizes, all ranks are one level.
Result<Hierarchy> levels_of(const SynthesisRequest& request, const std::string& levels) {
  if (levels != "auto") {
    return parse_hierarchy(levels, count_of(request.participants));
  }
  Result<Hierarchy> found = find_hierarchy(request.topology, request.participants);
  const bool is_uneven = !found && found.error().code == ErrorCode::kInfeasible;
  const bool is_one = found && found->level_count() == 1 && !found->is_grid;
  return is_uneven || is_one ? one_level(request) : std::move(found);
}

// Levels of one member are none.
Result<Plan> make_plan(const SynthesisRequest& request, const Options& options) {
  Plan plan{request, with_routing(request.topology, {}), {}, {}, {}, {}};
  PLEACH_SET(plan.hierarchy, levels_of(request, options.text("levels")));
  const std::string& names = options.text("algorithms");
  const std::vector<std::string_view> algorithms = split(names, '+');
  const int32_t level_count = plan.hierarchy.level_count();
  if (names != "auto" && count_of(algorithms) != level_count && algorithms.size() != 1) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("algorithms={} for {} levels", one_line(names), level_count)};
  }
  for (int32_t number = 0; number < level_count; ++number) {
    Level level{.size = plan.hierarchy.sizes[at(number)],
                .stride = plan.hierarchy.stride(number),
                .algorithm = std::string(algorithms[algorithms.size() == 1 ? 0 : at(number)])};
    if (level.size > 1) {
      level.algorithm = level.algorithm == "auto" ? usual_algorithm(plan, level) : level.algorithm;
      plan.levels.push_back(std::move(level));
    }
  }
  const std::string& orders = options.text("orders");
  const bool takes_all = orders == "all" || (orders == "auto" && plan.hierarchy.is_grid);
  std::vector<int32_t> order(plan.levels.size());
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t part = 0; part < (takes_all ? plan.levels.size() : 1); ++part) {
    plan.orders.push_back(order);
    std::rotate(order.begin(), order.begin() + 1, order.end());
  }
  if (const std::string& shares = options.text("shares"); shares != "equal" && shares != "best") {
    PLEACH_ASSIGN(wanted, parse_shares(shares, count_of(plan.orders)));
    plan.share_out(wanted);
  }
  return plan;
}

void set_stripes(Plan& plan, const std::string& stripes) {
  for (Level& level : plan.levels) {
    level.stripes = stripes == "auto" ? kStripeLimit : std::stoi(stripes);
    for (const Phase* phase : {&level.scatter, &level.gather, &level.all_reduce}) {
      if (stripes == "auto") {
        level.stripes = std::min(level.stripes, narrowest_way(plan, *phase));
      }
    }
  }
}

// An all_reduce of the last level may be one that has no halves.
Status add_phases(Plan& plan) {
  for (Level& level : plan.levels) {
    const bool is_last =
        plan.orders.size() == 1 && &level == &plan.levels[at(plan.orders[0].back())];
    const bool reduces = plan.request.collective == CollectiveKind::kAllReduce;
    if (is_last && reduces && !algorithm_does(level.algorithm, CollectiveKind::kReduceScatter) &&
        algorithm_does(level.algorithm, CollectiveKind::kAllReduce)) {
      PLEACH_SET(level.all_reduce, make_phase(plan, level, CollectiveKind::kAllReduce));
      continue;
    }
    if (plan.scatters()) {
      PLEACH_SET(level.scatter, make_phase(plan, level, CollectiveKind::kReduceScatter));
    }
    if (plan.gathers()) {
      PLEACH_SET(level.gather, make_phase(plan, level, CollectiveKind::kAllGather));
    }
  }
  return ok();
}

// Units of a rank in a part, so that every chunk of every phase is a whole number of them.
int64_t fineness_of(const Plan& plan) {
  int64_t fineness = 1;
  for (const std::vector<int32_t>& order : plan.orders) {
    int64_t left = plan.rank_count();  // owners of what a group works on
    for (const int32_t number : order) {
      const Level& level = plan.levels[at(number)];
      for (const Phase* phase : {&level.scatter, &level.gather, &level.all_reduce}) {
        const int64_t pieces = int64_t{phase->chunk_count} * level.stripes;
        fineness = std::lcm(fineness, pieces / std::gcd(pieces, left));
      }
      left /= level.size;
    }
  }
  return fineness;
}

Result<Schedule> written(const Plan& plan) {
  const int64_t fineness = fineness_of(plan);
  const int64_t chunk_count = fineness * plan.rank_count() * count_of(plan.orders);
  PLEACH_TRY(check_size(0, chunk_count));
  if (chunk_count > kMaxScheduleChunks) {
    return Error{ErrorCode::kInfeasible, fmt::format("the schedule would have {} chunks; the limit "
                                                     "is {}",
                                                     chunk_count, kMaxScheduleChunks)};
  }
  Writer writer(plan, static_cast<int32_t>(fineness));
  for (int32_t part = 0; part < count_of(plan.orders); ++part) {
    writer.write_part(part);
  }
  return std::move(writer).finish();
}

// The shares with which no link has more to do than it must, of a schedule with equal ones.
std::vector<int64_t> best_shares_of(const Plan& plan, const Schedule& schedule) {
  const int32_t fineness = schedule.chunks.count() / plan.rank_count() / count_of(plan.orders);
  std::map<LinkId, std::vector<double>> loads;
  for (const Transfer& transfer : schedule.transfers) {
    for (const LinkId link : schedule.routes[transfer.route]) {
      std::vector<double>& of_parts = loads[link];
      of_parts.resize(plan.orders.size());
      of_parts[at(plan.part_of(transfer.first_chunk, fineness))] +=
          static_cast<double>(transfer.chunk_count) /
          static_cast<double>(plan.request.topology.link(link).bandwidth_bytes_per_s);
    }
  }
  std::vector<std::vector<double>> rows;
  for (auto& [link, row] : loads) {
    rows.push_back(std::move(row));
  }
  return best_shares(rows);
}

Result<Schedule> hierarchical(const SynthesisRequest& request, const Options& options) {
  PLEACH_ASSIGN(plan, make_plan(request, options));
  PLEACH_TRY(add_phases(plan));
  set_stripes(plan, options.text("stripes"));
  if (options.text("shares") == "best" && plan.orders.size() > 1) {
    PLEACH_ASSIGN(equal, written(plan));
    plan.share_out(best_shares_of(plan, equal));
  }
  return written(plan);
}

}  // namespace

extern const Algorithm kHierarchical = {
    .name = "hierarchical",
    .summary = "level by level: boxes, then networks; or the dimensions of a grid",
    .source =
        "Cho et al., BlueConnect, MLSys 2019 (all_reduce by reduce_scatters and all_gathers "
        "of the levels); Chan et al. 2007, sec. 7 (meshes)",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather},
    .options = {{.name = "levels",
                 .kind = OptionDescriptor::Kind::kText,
                 .default_value = "auto",
                 .summary = "sizes of groups, innermost first, as 8x2; auto: the topology's"},
                {.name = "algorithms",
                 .kind = OptionDescriptor::Kind::kText,
                 .default_value = "auto",
                 .summary = "of the levels, innermost first, as direct+ring; one: of all"},
                {.name = "orders",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "auto",
                 .summary = "one: innermost first; all: as many parts of the buffer as levels, "
                            "each begins with another; auto: all on grids",
                 .allowed = {"auto", "one", "all"}},
                {.name = "shares",
                 .kind = OptionDescriptor::Kind::kText,
                 .default_value = "equal",
                 .summary = "of the parts, in the order of the levels with which they begin, as "
                            "11+13; best: those that load links the least"},
                stripes_option()},
    .create = &hierarchical,
};

}  // namespace pleach
