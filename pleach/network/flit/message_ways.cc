#include "pleach/network/flit/message_ways.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "pleach/network/flit/published_turns.h"
#include "pleach/network/flit/vc_classes.h"

namespace pleach {
namespace {

// Numbers of distinct routes, over all jobs.
struct Routes {
  std::vector<std::vector<LinkId>> routes;
  std::vector<std::vector<int32_t>> of_connection;  // by job
};

Routes routes_of(std::span<const LoweredJob> jobs) {
  Routes all;
  std::map<std::vector<LinkId>, int32_t> numbers;
  for (const LoweredJob& job : jobs) {
    std::vector<int32_t>& of = all.of_connection.emplace_back();
    for (const LoweredConnection& connection : job.schedule().connections()) {
      const auto [known, is_new] = numbers.try_emplace(connection.links, count_of(all.routes));
      if (is_new) {
        all.routes.push_back(connection.links);
      }
      of.push_back(known->second);
    }
  }
  return all;
}

// Streams in the order in which their receivers take turns: they are numbered by step and, within
// one, by first chunk.
std::vector<int32_t> turns_of(const Order& order) {
  std::vector<int32_t> streams(at(order.stream_count()));
  std::iota(streams.begin(), streams.end(), 0);
  std::ranges::sort(streams, {}, [&](int32_t stream) {
    const bool reduces = order.stream(stream).op == TransferOp::kReduce;
    return std::tuple(order.stream(stream).step, !reduces, reduces ? -stream : stream);
  });
  return streams;
}

// Chooses which interface of its target a message comes out of.
class Receivers {
 public:
  Receivers(const Topology& topology, const TopologyFabric& fabric, const FlitOptions& options)
      : topology_(topology), fabric_(fabric), options_(options), turns_(topology.nodes().size()) {}

  // Streams come in the order of turns_of().
  int32_t choose(NodeId target, int32_t step, LinkId last) {
    if (options_.binds_links) {
      return interface_of_link(fabric_, target, topology_.links_in(target), last);
    }
    Turn& turn = turns_[target.index()];
    if (turn.step != step) {
      turn = {step, 0};
    }
    return fabric_.first_interface[target.index()] + turn.next++ % options_.interfaces;
  }

 private:
  struct Turn {
    int32_t step = -1;
    int32_t next = 0;
  };
  const Topology& topology_;
  const TopologyFabric& fabric_;
  const FlitOptions& options_;
  std::vector<Turn> turns_;  // by node
};

}  // namespace

Result<MessageWays> MessageWays::create(const Topology& topology, const TopologyFabric& fabric,
                                        const FlitOptions& options,
                                        std::span<const LoweredJob> jobs) {
  const Routes all = routes_of(jobs);
  PLEACH_ASSIGN(classes, assign_vc_classes(topology, all.routes, options.routers.vcs,
                                           options.allow_deadlock));
  MessageWays ways;
  ways.vc_classes_ = classes.count;
  ways.first_.push_back(0);
  std::map<std::pair<int32_t, int32_t>, int32_t> numbers;  // by route and interface
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    Receivers receivers(topology, fabric, options);
    const Order& order = jobs[job].order();
    const LoweredSchedule& schedule = jobs[job].schedule();
    std::vector<int32_t>& of = ways.ways_.emplace_back(at(order.stream_count()));
    const std::vector<int32_t> turns =
        options.is_published ? published_turns(topology, schedule) : turns_of(order);
    if (options.is_published) {
      std::vector<int32_t>& turn_of = ways.turns_.emplace_back(turns.size());
      for (std::size_t turn = 0; turn < turns.size(); ++turn) {
        turn_of[at(turns[turn])] = static_cast<int32_t>(turn);
      }
    }
    for (const int32_t stream : turns) {
      const int32_t route = all.of_connection[job][at(schedule.connection_class(stream))];
      const std::vector<LinkId>& links = all.routes[at(route)];
      const NodeId target = schedule.schedule().participants[at(order.targets(stream).front())];
      const int32_t interface = receivers.choose(target, order.stream(stream).step, links.back());
      const auto [known, is_new] =
          numbers.try_emplace({route, interface}, count_of(ways.first_) - 1);
      if (is_new) {
        const auto hops =
            hops_of(fabric, links, interface, classes.count, classes.class_of[at(route)]);
        ways.hops_.insert(ways.hops_.end(), hops.begin(), hops.end());
        ways.first_.push_back(ways.hops_.size());
      }
      of[at(stream)] = known->second;
    }
  }
  PLEACH_TRY(ways.measure(options, jobs));
  return ways;
}

Status MessageWays::measure(const FlitOptions& options, std::span<const LoweredJob> jobs) {
  constexpr double kMostFlitHops = 0x1p44;
  double flit_hops = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const LoweredJob& job = jobs[i];
    for (int32_t stream = 0; stream < job.order().stream_count(); ++stream) {
      const auto routers = static_cast<double>(hops(static_cast<int32_t>(i), stream).size());
      for (int32_t segment = 0; segment < job.schedule().segment_count(); ++segment) {
        const int64_t bytes = job.payload_bytes(job.schedule().send(stream, segment, 0));
        if (options.shape.flow_control == FlowControl::kMessage &&
            options.shape.flits(bytes) > INT32_MAX) {
          return invalid(
              fmt::format("a message of {} bytes is {} flits, at most {}: cut it into "
                          "segments, or take larger flits",
                          bytes, options.shape.flits(bytes), INT32_MAX));
        }
        shortest_packet_ = std::min(shortest_packet_, options.shape.shortest_packet(bytes));
        flit_hops += static_cast<double>(options.shape.flits(bytes)) * routers;
      }
    }
  }
  if (flit_hops > kMostFlitHops) {
    return invalid(
        fmt::format("the jobs move {:.3g} flits over routers, the flit model at most "
                    "{:.3g}; use flow for such sizes",
                    flit_hops, kMostFlitHops));
  }
  return ok();
}

}  // namespace pleach
