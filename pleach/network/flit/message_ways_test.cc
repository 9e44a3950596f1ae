#include "pleach/network/flit/message_ways.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/schedule_forms.h"
#include "tests/support/small_schedules.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;

// Of one job.
class Ways {
 public:
  Ways(const std::string& spec, const Schedule& schedule, int64_t size_bytes,
       const FlitOptions& options)
      : topology(support::topology_of(spec)),
        fabric(std::move(fabric_of(topology, {.interfaces = options.interfaces})).value()),
        forms(std::move(ScheduleForms::create(topology, borrowed(schedule), simulation)).value()),
        job(std::move(forms->whole(size_bytes)).value()),
        ways(MessageWays::create(topology, fabric, options, {&job, 1})) {}

  // Where a stream's messages come out, having followed their hops from router to router.
  int32_t interface_of(int32_t stream) const {
    const LoweredSchedule& lowered = job.schedule();
    const auto& links = lowered.connections()[at(lowered.connection_class(stream))].links;
    const NodeId source = topology.link(links.front()).source;
    const NodeId target = topology.link(links.back()).target;
    FabricEnd here = channel_from({-1, fabric.first_interface[source.index()]}).target;
    for (const uint16_t hop : ways->hops(0, stream)) {
      EXPECT_GE(here.router, 0);
      here = channel_from({here.router, hop / ways->vc_classes()}).target;
    }
    EXPECT_LT(here.router, 0) << "it ends at an interface";
    const int32_t interface = here.port - fabric.first_interface[target.index()];
    EXPECT_GE(interface, 0);
    return interface;
  }

  const Topology topology;
  const SimulationOptions simulation;
  const TopologyFabric fabric;
  const std::unique_ptr<ScheduleForms> forms;
  const LoweredJob job;
  const Result<MessageWays> ways;

 private:
  const FabricChannel& channel_from(FabricEnd end) const {
    for (const FabricChannel& channel : fabric.fabric.channels) {
      if (channel.source.router == end.router && channel.source.port == end.port) {
        return channel;
      }
    }
    ADD_FAILURE() << "no channel from router " << end.router << ", port " << end.port;
    return fabric.fabric.channels.front();
  }
};

// Three messages to rank 0 in a step, then two: in turn, by first chunk, reductions backwards.
TEST(MessageWays, InterfacesOfATargetTakeTurns) {
  const Schedule gather =
      make_schedule({.rank_count = 4, .chunk_count = 4}, {{1, 1, 1, 0, kCopy},
                                                          {2, 1, 2, 0, kCopy},
                                                          {3, 1, 3, 0, kCopy},
                                                          {0, 1, 1, 0, kReduce, 1},
                                                          {1, 1, 2, 0, kReduce, 1}});
  for (const char* spec : {"fully_connected:4", "ring:4", "switch:4"}) {
    for (const int32_t interfaces : {1, 2, 4}) {
      const Ways ways(spec, gather, 4'000, {.routers = {}, .shape = {}, .interfaces = interfaces});
      ASSERT_TRUE(ways.ways) << ways.ways.error().message;
      const std::vector<int32_t> turns = {0, 1, 2, 1, 0};
      for (int32_t stream = 0; stream < 5; ++stream) {
        EXPECT_EQ(ways.interface_of(stream), turns[at(stream)] % interfaces)
            << spec << ", stream " << stream;
      }
    }
  }
}

// By root and then chunk, and of one tree by the parent's edges: of the middle of a 3x3 mesh those
// to 1, 3, 5 and 7. The tree of chunk 1 has root 4, that of chunk 0 root 8, to which 5 hands it on.
TEST(MessageWays, PublishedInterfacesTakeTurnsByTree) {
  const Schedule reduce = make_schedule(
      {.collective = CollectiveKind::kReduceScatter, .rank_count = 9, .chunk_count = 9},
      {{0, 1, 1, 4, kReduce, 0},
       {0, 1, 4, 5, kReduce, 1},
       {0, 1, 5, 8, kReduce, 2},
       {4, 1, 7, 4, kReduce, 0},
       {4, 1, 5, 4, kReduce, 0},
       {4, 1, 3, 4, kReduce, 0}});
  FlitOptions options{.routers = {}, .shape = {}, .interfaces = 4};
  options.is_published = true;
  const Ways ways("mesh:3x3", reduce, 9'000, options);
  ASSERT_TRUE(ways.ways) << ways.ways.error().message;
  const std::map<std::pair<int32_t, int32_t>, int32_t> turns = {
      {{7, 4}, 0}, {{3, 4}, 1}, {{5, 4}, 2}, {{1, 4}, 3}, {{4, 5}, 0}, {{5, 8}, 0}};
  const Order& order = ways.job.order();
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    const std::pair way(order.sources(stream).front(), order.targets(stream).front());
    EXPECT_EQ(ways.interface_of(stream), turns.at(way)) << way.first << " to " << way.second;
  }
}

// A rank serves its children in one tree N, S, W, E, however they are numbered.
TEST(MessageWays, PublishedInterfacesGatherByEdge) {
  const Schedule gather = make_schedule(
      {.collective = CollectiveKind::kBroadcast, .rank_count = 9, .root = 4},
      {{0, 1, 4, 1, kCopy}, {0, 1, 4, 3, kCopy}, {0, 1, 4, 5, kCopy}, {0, 1, 4, 7, kCopy}});
  for (const bool is_published : {false, true}) {
    FlitOptions options{.routers = {}, .shape = {}, .interfaces = 4};
    options.is_published = is_published;
    const Ways ways("mesh:3x3", gather, 9'000, options);
    ASSERT_TRUE(ways.ways) << ways.ways.error().message;
    std::map<int32_t, int32_t> targets;  // by turn
    for (int32_t stream = 0; stream < 4; ++stream) {
      targets[ways.ways->turn(0, stream)] = ways.job.order().targets(stream).front();
    }
    EXPECT_EQ(targets, (std::map<int32_t, int32_t>{{0, 1},
                                                   {1, is_published ? 7 : 3},
                                                   {2, is_published ? 3 : 5},
                                                   {3, is_published ? 5 : 7}}));
  }
}

// Over a rank's i-th link in it comes out of its i-th interface.
TEST(MessageWays, BoundToLinksMessagesComeOutOfTheirLinks) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 5);
  const Ways ways("ring:5", ring, 1'000,
                  {.routers = {}, .shape = {}, .interfaces = 2, .binds_links = true});
  ASSERT_TRUE(ways.ways) << ways.ways.error().message;
  for (int32_t stream = 0; stream < ways.job.order().stream_count(); ++stream) {
    const LinkId link = ways.job.schedule()
                            .connections()[at(ways.job.schedule().connection_class(stream))]
                            .links[0];
    const auto into = ways.topology.links_in(ways.topology.link(link).target);
    EXPECT_EQ(into[at(ways.interface_of(stream))], link);
  }
}

TEST(MessageWays, RefuseWhatIsTooMuch) {
  const Schedule broadcast =
      make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy}});
  FlitOptions by_messages;
  by_messages.shape.flow_control = FlowControl::kMessage;
  const struct {
    FlitOptions options;
    int64_t size_bytes;
    std::string error;
  } cases[] = {
      {{}, int64_t{1} << 46, ""},
      {{},
       int64_t{1} << 48,
       "the jobs move 3.74e+13 flits over routers, the flit model at most 1.76e+13; use flow for "
       "such sizes"},
      {by_messages, int64_t{1} << 34, ""},
      {by_messages, int64_t{1} << 35,
       "a message of 34359738368 bytes is 2147483649 flits, at most 2147483647: cut it into "
       "segments, or take larger flits"}};
  for (const auto& [options, size_bytes, error] : cases) {
    const Ways ways("ring:2", broadcast, size_bytes, options);
    EXPECT_EQ(ways.ways ? "" : ways.ways.error().message, error) << size_bytes;
  }
}

TEST(MessageWays, KnowTheShortestPacket) {
  const Schedule broadcast =
      make_schedule({.collective = CollectiveKind::kBroadcast}, {{0, 1, 0, 1, kCopy}});
  FlitOptions by_messages;
  by_messages.shape.flow_control = FlowControl::kMessage;
  for (const auto& [size_bytes, by_packet, by_message] :
       {std::tuple{0, 1, 1}, {1, 2, 2}, {256, 17, 17}, {257, 2, 18}, {600, 7, 39}}) {
    EXPECT_EQ(Ways("ring:2", broadcast, size_bytes, {}).ways->shortest_packet(), by_packet);
    EXPECT_EQ(Ways("ring:2", broadcast, size_bytes, by_messages).ways->shortest_packet(),
              by_message);
  }
}

}  // namespace
}  // namespace pleach
