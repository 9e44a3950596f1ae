// expand: a symmetric schedule with every translate written out.
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/route_index.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"

namespace pleach {
namespace {

// Routes that some transfer uses, and how many links they have together.
struct UsedRoutes {
  std::vector<int32_t> routes;
  std::vector<int32_t> place;  // by route: its index in `routes`, or -1
  int64_t link_count = 0;
};

UsedRoutes used_routes(const Schedule& schedule) {
  UsedRoutes used;
  used.place.resize(at(schedule.routes.size()), -1);
  for (const Transfer& transfer : schedule.transfers) {
    if (transfer.route != kNoRoute && used.place[at(transfer.route)] < 0) {
      used.place[at(transfer.route)] = count_of(used.routes);
      used.routes.push_back(transfer.route);
      used.link_count += std::ssize(schedule.routes[transfer.route]);
    }
  }
  return used;
}

class Expansion {
 public:
  Expansion(const Schedule& schedule, std::optional<LinkTranslation> links, Schedule& result)
      : schedule_(schedule),
        translation_(schedule.symmetry->dimensions),
        links_(std::move(links)),
        rank_of_(schedule.participants),
        used_(used_routes(schedule)),
        result_(result),
        routes_(result.routes) {}

  // Adds the translate by g.
  void add(int32_t g) {
    std::vector<int32_t> moved_route(used_.routes.size(), kNoRoute);
    std::vector<LinkId> moved;
    for (std::size_t i = 0; links_ && i < used_.routes.size(); ++i) {
      check_interruption();
      moved.clear();
      for (const LinkId link : schedule_.routes[used_.routes[i]]) {
        moved.push_back(links_->translate(link, g));
      }
      moved_route[i] = routes_.find_or_add(moved);
    }
    for (Transfer transfer : schedule_.transfers) {
      check_interruption();
      transfer.first_chunk = translate_chunk(schedule_, translation_, transfer.first_chunk, g);
      transfer.source = moved_node(transfer.source, g);
      transfer.target = moved_node(transfer.target, g);
      if (transfer.route != kNoRoute) {
        const int32_t place = used_.place[at(transfer.route)];
        transfer.route = moved_route[at(place)];
      }
      result_.transfers.push_back(transfer);
    }
  }

 private:
  NodeId moved_node(NodeId node, int32_t g) const {
    const int32_t rank = translation_.add(rank_of_(node), g);
    return schedule_.participants[at(rank)];
  }

  const Schedule& schedule_;
  Translation translation_;
  std::optional<LinkTranslation> links_;
  RankOfNode rank_of_;
  UsedRoutes used_;
  Schedule& result_;
  RouteIndex routes_;
};

}  // namespace

Result<Schedule> expand(const Schedule& schedule, const Topology* topology, int64_t limit) {
  const int64_t translates = schedule.symmetry ? schedule.rank_count() : 1;
  const int64_t link_count = schedule.symmetry ? used_routes(schedule).link_count * translates : 0;
  int64_t move_count = 0;
  for (const Transfer& transfer : schedule.transfers) {
    move_count += transfer.chunk_count * translates;
  }
  if (move_count > limit || link_count > limit) {
    return invalid(
        fmt::format("the explicit form of {} would move {} chunks and hold {} links of routes; the "
                    "limit is {}",
                    to_text(schedule.collective), move_count, link_count, limit));
  }
  if (!schedule.symmetry) {
    return schedule;
  }
  std::optional<LinkTranslation> links;
  if (topology != nullptr) {
    PLEACH_SET(links, LinkTranslation::create(schedule, *topology, false));
  }
  Schedule result;
  result.collective = schedule.collective;
  result.root = schedule.root;
  result.participants = schedule.participants;
  result.chunks = schedule.chunks;
  result.period = schedule.period;
  result.phase_steps = schedule.phase_steps;
  result.provenance = schedule.provenance;
  result.transfers.reserve(at(schedule.transfer_count()));
  Expansion expansion(schedule, std::move(links), result);
  for (int32_t g = 0; g < schedule.rank_count(); ++g) {
    expansion.add(g);
  }
  sort_transfers(result);
  return result;
}

}  // namespace pleach
