#include "pleach/topology/host_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/topology/routes.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

constexpr HostModel kModel = {.rank_bandwidth_bytes_per_s = 3'000'000'000,
                              .host_bandwidth_bytes_per_s = 6'000'000'000,
                              .latency_ps = 2'500'000,
                              .message_bytes = 1200};

TEST(HostModel, AllMessagesMeetOnOneLink) {
  for (const int32_t ranks : {1, 2, 5}) {
    const Result<Topology> topology = host_topology(kModel, ranks, "a host");
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(topology->name(), "a host");
    EXPECT_EQ(topology->rank_nodes().size(), static_cast<std::size_t>(ranks));
    EXPECT_EQ(topology->links().size(), static_cast<std::size_t>(2 * ranks + 1));
    EXPECT_EQ(topology->framing(), (Framing{1200, int64_t{1} << 30}));
    int32_t slow = 0;
    for (const Link& link : topology->links()) {
      const bool is_shared = link.latency_ps > 0;
      slow += is_shared ? 1 : 0;
      EXPECT_EQ(link.latency_ps, is_shared ? 2'500'000 : 0);
      EXPECT_EQ(link.bandwidth_bytes_per_s, is_shared ? 6'000'000'000 : 3'000'000'000);
    }
    EXPECT_EQ(slow, 1);
  }
}

TEST(HostModel, IsAFile) {
  const std::string text = host_topology_toml(kModel, 3, "shm", "measured\non two cores");
  EXPECT_TRUE(text.starts_with("# measured\n# on two cores\nname = \"shm\"\n")) << text;
  const Result<Topology> read = parse_topology_toml(text, "host.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->fingerprint(), host_topology(kModel, 3, "another name")->fingerprint());
}

// Within a host there are three links between two ranks, to another host four.
TEST(HostModel, HostsMeetInTheirNetwork) {
  const HostNetwork network = {1'000'000'000, 20'000'000};
  const std::vector<int32_t> hosts = {0, 1, 0, 1, 1};
  const Result<Topology> topology = hosts_topology(kModel, network, hosts, "hosts");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(topology->rank_nodes().size(), hosts.size());
  Router router(*topology);
  for (std::size_t from = 0; from < hosts.size(); ++from) {
    EXPECT_EQ(topology->node(topology->rank_nodes()[from]).name, std::to_string(from));
    for (std::size_t to = 0; to < hosts.size(); ++to) {
      if (from == to) {
        continue;
      }
      const auto route = router.route(topology->rank_nodes()[from], topology->rank_nodes()[to]);
      ASSERT_TRUE(route);
      int64_t latency_ps = 0, least = INT64_MAX;
      for (const LinkId link : *route) {
        latency_ps += topology->link(link).latency_ps;
        least = std::min(least, topology->link(link).bandwidth_bytes_per_s);
      }
      const bool is_near = hosts[from] == hosts[to];
      EXPECT_EQ(route->size(), is_near ? 3U : 4U);
      EXPECT_EQ(latency_ps, is_near ? kModel.latency_ps : network.latency_ps);
      EXPECT_EQ(least, is_near ? kModel.rank_bandwidth_bytes_per_s : 1'000'000'000);
    }
  }
}

TEST(HostModel, RefusesWhatNoTopologyHas) {
  HostModel model = kModel;
  model.message_bytes = int64_t{1} << 30;
  EXPECT_FALSE(host_topology(model, 2, "host"));
  EXPECT_FALSE(hosts_topology(model, {int64_t{1} << 40, 1}, std::vector<int32_t>{0, 1}, "hosts"));
  model = kModel;
  model.host_bandwidth_bytes_per_s = 0;
  EXPECT_FALSE(host_topology(model, 2, "host"));
}

}  // namespace
}  // namespace pleach
