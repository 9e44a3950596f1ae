#include "pleach/api/schedule_source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "pleach/api/inspect.h"
#include "pleach/api/timing.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Topology shape(const char* spec) {
  return parse_topology(spec).value();
}

TEST(ParseGroup, ReadsRanksAndIntervalsInOrder) {
  const Topology topology = shape("ring:8");
  const auto group = parse_group(topology, "5,0-2,7");
  ASSERT_TRUE(group.has_value());
  const std::vector<NodeId> expected = {{5}, {0}, {1}, {2}, {7}};
  EXPECT_EQ(*group, expected);
  for (const char* text : {"", "8", "-1", "2-1", "0,0", "0-3,2", "a", "1-", "0,,1"}) {
    EXPECT_FALSE(parse_group(topology, text).has_value()) << text;
  }
}

std::vector<std::vector<NodeId>> members_of(const std::vector<ScheduleRequest>& groups) {
  std::vector<std::vector<NodeId>> members;
  for (const ScheduleRequest& group : groups) {
    members.push_back(group.participants);
  }
  return members;
}

TEST(ParseGroups, TakesGroupsThatShareNoRank) {
  const Topology topology = shape("mesh:2x3");
  const auto groups = parse_groups(topology, "0,4 ;1-2;5,3", CollectiveKind::kAllReduce);
  ASSERT_TRUE(groups.has_value());
  EXPECT_EQ(members_of(*groups),
            (std::vector<std::vector<NodeId>>{{{0}, {4}}, {{1}, {2}}, {{5}, {3}}}));
  for (const ScheduleRequest& group : *groups) {
    EXPECT_EQ(group.collective, CollectiveKind::kAllReduce);
    EXPECT_FALSE(group.root.has_value());
  }
  for (const char* text : {"", ";", "0,1;", "0;1;0", "0,1;2,x", "0:1", "io:0,1"}) {
    EXPECT_FALSE(parse_groups(topology, text, CollectiveKind::kAllReduce).has_value()) << text;
  }
  EXPECT_EQ(parse_groups(topology, "0,1;2,4;3,1", CollectiveKind::kAllReduce).error().message,
            "node 1 is in group 0 and in group 2");
  EXPECT_EQ(parse_groups(topology, "0,1; 2 ;3,4", CollectiveKind::kAllReduce).error().message,
            "group 1 ('2') is one rank: a collective takes at least 2");
}

TEST(ParseGroups, TakesRoots) {
  const Topology topology = shape("wafer_mesh:2x2");
  const CollectiveKind broadcast = CollectiveKind::kBroadcast;
  const auto groups = parse_groups(topology, "1:3,0; left1:1,2", broadcast);
  ASSERT_TRUE(groups.has_value()) << groups.error().message;
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ((*groups)[0].root, Rank{1});  // counted within the group
  EXPECT_EQ((*groups)[0].participants, (std::vector<NodeId>{{3}, {0}}));
  EXPECT_EQ((*groups)[1].root, Rank{2});
  EXPECT_EQ(topology.node((*groups)[1].participants[2]).name, "left1");
  const auto all = parse_groups(topology, "io:0-3", broadcast);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(all->size(), 8U);
  for (std::size_t io = 0; io < all->size(); ++io) {
    EXPECT_EQ((*all)[io].participants,
              (std::vector<NodeId>{{0}, {1}, {2}, {3}, {4 + static_cast<int32_t>(io)}}));
    EXPECT_EQ((*all)[io].root, Rank{4});
  }
  EXPECT_TRUE(parse_groups(topology, "top0:0;left0:0", broadcast).has_value());  // two each
  EXPECT_TRUE(parse_groups(topology, "top0:0-1;bottom1:1-3", CollectiveKind::kReduce).has_value());
  const struct {
    std::string text;
    CollectiveKind collective;
    std::string message;
  } refused[] = {
      {"2:0,1", broadcast, "root '2' is outside 0 to 1"},
      {"topp0:0,1", broadcast, "unknown rank or I/O node 'topp0'; did you mean 'top0'?"},
      {"0:0,1;1:1,2", broadcast, "node 1 is in group 0 and in group 1"},
      {"top0:0,1;0:1,2", broadcast, "node 1 is in group 0 and in group 1"},
      {"top0:0,1;1,2", broadcast, "node 1 is in group 0 and in group 1"},
      {"top0:0,1", CollectiveKind::kGather, "'top0' is an I/O node: the root of a broadcast"},
      {"top0:0,1", CollectiveKind::kAllReduce, "'top0:0,1': all_reduce has no root"},
      {"0:0", broadcast, "group 0 ('0:0') is one rank: a collective takes at least 2"},
      {":0,1", broadcast, "root '' is not a whole number"},
      {"top0:", broadcast, "''"},
      {"top0:0,9", broadcast, "'9'"},
  };
  for (const auto& [text, collective, message] : refused) {
    const auto result = parse_groups(topology, text, collective);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_NE(result.error().message.find(message), std::string::npos) << result.error().message;
  }
}

TEST(ObtainSchedule, ReadsWhatItWroteAndRefusesTheRest) {
  const Topology topology = shape("mesh:2x3");
  ScheduleRequest request{.collective = CollectiveKind::kAllGather};
  const auto written = obtain_schedule(topology, "ring", request);
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const std::string path = testing::TempDir() + "obtain_schedule_test.json";
  ASSERT_TRUE(write_schedule(**written, path).has_value());

  const auto read = obtain_schedule(topology, path, request);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(**read, **written);

  request.collective = CollectiveKind::kBroadcast;
  const auto other = obtain_schedule(topology, path, request);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().message, path + ": a schedule of all_gather, not of broadcast");

  Schedule broken = **written;
  broken.transfers.pop_back();
  ASSERT_TRUE(write_schedule(broken, path).has_value());
  const auto refused = obtain_schedule(topology, path);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().message.starts_with(path + ": ")) << refused.error().message;
  std::filesystem::remove(path);
}

TEST(Summarize, CountsTransfersThatMeetOnALink) {
  // A switch with three ranks: in one step each rank sends to both others over its one cable.
  const Topology topology = shape("switch:3");
  const auto schedule =
      obtain_schedule(topology, "direct", {.collective = CollectiveKind::kAllToAll});
  ASSERT_TRUE(schedule.has_value());
  const auto summary = summarize(**schedule, topology);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(summary->max_transfers_per_link_step, 2);
}

TEST(Summarize, CountsTheSameInSymmetricAndExplicitForm) {
  const Topology topology = shape("ring:6");
  for (const char* algorithm : {"ring", "ring,form=explicit"}) {
    const auto schedule = obtain_schedule(topology, algorithm);
    ASSERT_TRUE(schedule.has_value());
    const auto summary = summarize(**schedule, topology);
    ASSERT_TRUE(summary.has_value());
    EXPECT_EQ(summary->max_transfers_per_link_step, 1) << algorithm;
    EXPECT_EQ(summary->transfer_count, 60) << algorithm;
  }
}

TEST(ListRegistry, KnowsEveryRegistryAndNamesTheNearest) {
  EXPECT_EQ(list_registries().size(), 10U);
  for (const RegistryListing& listing : list_registries()) {
    EXPECT_FALSE(listing.entries.empty()) << listing.registry;
    for (const RegistryEntry& entry : listing.entries) {
      EXPECT_FALSE(entry.summary.empty()) << listing.registry << " " << entry.name;
    }
  }
  const auto missing = list_registry("model");
  ASSERT_FALSE(missing.has_value());
  EXPECT_NE(missing.error().message.find("did you mean 'models'?"), std::string::npos);
}

TEST(TimeSchedule, ChoosesTheFastestSegmentCount) {
  // A chain of reductions over five hops: segments overlap, so more of them are faster until the
  // latency of each weighs more.
  const Topology topology = shape("mesh:6,latency=1us");
  const auto schedule =
      obtain_schedule(topology, "ring", {.collective = CollectiveKind::kBroadcast});
  ASSERT_TRUE(schedule.has_value()) << schedule.error().message;
  TimingRequest timing;
  timing.size_bytes = 64 << 20;
  timing.choose_segments = true;
  const auto chosen = time_schedule(topology, *schedule, timing);
  ASSERT_TRUE(chosen.has_value()) << chosen.error().message;
  timing.choose_segments = false;
  for (int32_t segments = 1; segments <= 64; segments *= 2) {
    timing.options.segment_count = segments;
    const auto fixed = time_schedule(topology, *schedule, timing);
    ASSERT_TRUE(fixed.has_value());
    EXPECT_LE(chosen->time_ps, fixed->time_ps) << segments;
    if (segments < chosen->segment_count) {
      EXPECT_LT(chosen->time_ps, fixed->time_ps) << segments;
    }
  }
}

// A message holds a fast cable as long as the slow one behind it: only that one is the bottleneck.
TEST(TimeSchedule, UtilizationIsBytesAndNotOccupation) {
  const auto topology = parse_topology_toml(R"(
    node = [{name="a"}, {name="b"}, {name="s", kind="switch"}]
    cable = [{source="a", target="s", bandwidth="10GB/s", latency="0ns"},
             {source="s", target="b", bandwidth="1GB/s", latency="0ns"}]
  )",
                                            "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  const auto schedule =
      obtain_schedule(*topology, "ring", {.collective = CollectiveKind::kBroadcast});
  ASSERT_TRUE(schedule) << schedule.error().message;
  for (const char* model : {"flow", "analytic"}) {
    const auto result =
        time_schedule(*topology, *schedule, {.model = model, .size_bytes = 4000, .options = {}});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->time_ps, 4'000'000) << model;
    EXPECT_EQ(result->links.bottleneck, "s->b") << model;
    EXPECT_DOUBLE_EQ(result->links.bottleneck_utilization, 1) << model;
    EXPECT_DOUBLE_EQ(result->links.bottleneck_busy, 1) << model;
    EXPECT_DOUBLE_EQ(result->links.utilization_mean, (1 + 0.1) / 4) << model;
    EXPECT_GE(result->links.busy_mean, result->links.utilization_mean) << model;
    EXPECT_NE(links_csv(*topology, *result).find("0,a,s,10000000000,"), std::string::npos);
    EXPECT_NE(links_csv(*topology, *result).find(",4000,0.100000\n"), std::string::npos);
  }
}

TEST(TimeSchedule, CountsCyclesBandwidthAndBytes) {
  const Topology topology = shape("ring:4,bandwidth=1GB/s,latency=0ns");
  const auto schedule = obtain_schedule(topology, "ring");
  ASSERT_TRUE(schedule.has_value());
  TimingRequest timing;
  timing.size_bytes = 4000;
  timing.cycle_ps = 4'000'000;
  const auto result = time_schedule(topology, *schedule, timing);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->time_ps, 6'000'000);  // six steps of 1,000 bytes at 1 GB/s
  EXPECT_EQ(result->cycles, 2);
  EXPECT_NEAR(result->algbw_bytes_per_s, 4000 / 6e-6, 1);
  EXPECT_NEAR(result->busbw_bytes_per_s, 1e9, 1);
  EXPECT_EQ(result->links.bytes, 24'000);
  EXPECT_DOUBLE_EQ(result->links.utilization_mean, 0.5);  // one direction of each cable
  EXPECT_EQ(result->model, "flow");
  EXPECT_EQ(result->size_bytes, 4000);
  EXPECT_EQ(split(links_csv(topology, *result), '\n').size(), 10U);
}

// A cycle is the model's own where it has a clock.
TEST(TimeSchedule, TakesACycleOfModelsWithoutAClock) {
  const Topology topology = shape("ring:4,bandwidth=32GB/s,latency=10ns");
  const auto schedule = obtain_schedule(topology, "ring");
  ASSERT_TRUE(schedule.has_value());
  TimingRequest timing = {.model = "flit", .size_bytes = 4000, .options = {}};
  const auto result = time_schedule(topology, *schedule, timing);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE(result->cycles, result->time_ps / 500);
  timing.cycle_ps = 500;
  const auto refused = time_schedule(topology, *schedule, timing);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "cycle: 500 ps: the clock of flit is the bytes of a flit over the fastest link's "
            "bandwidth");
  timing.model = "flit,router=fred";
  timing.cycle_ps = 500;
  const auto by_packets = time_schedule(topology, *schedule, timing);
  ASSERT_TRUE(by_packets) << by_packets.error().message;
  EXPECT_EQ(by_packets->cycles, (by_packets->time_ps + 499) / 500);
  timing.model = "flow";
  timing.cycle_ps = 0;
  EXPECT_EQ(time_schedule(topology, *schedule, timing).error().message,
            "cycle: a cycle takes time");
}

// What does not hold says whether the schedule was planned for this topology.
TEST(ScheduleSource, TellsASchedulePlannedForAnotherTopology) {
  const Topology ring = parse_topology("ring:4").value(), mesh = parse_topology("mesh:2x2").value();
  const std::string path = testing::TempDir() + "planned_elsewhere.json";
  ASSERT_TRUE(write_schedule(**obtain_schedule(ring, "ring", {}), path));
  const auto obtained = obtain_schedule(mesh, path, {});
  ASSERT_FALSE(obtained);
  EXPECT_TRUE(obtained.error().message.ends_with("(it was planned for another topology)"))
      << obtained.error().message;
  EXPECT_TRUE(obtain_schedule(ring, path, {}));
}

}  // namespace
}  // namespace pleach
