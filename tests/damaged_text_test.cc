// Whatever is typed or written where switches, flows, placements, groups and models are named, the
// answer is a value or one line that says what is wrong. A failed check would end this program.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pleach/api/schedule_source.h"
#include "pleach/base/rng.h"
#include "pleach/fabric/placement_study.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/model.h"
#include "pleach/topology/shapes.h"
#include "pleach/training/switch_configurations.h"
#include "pleach/training/traffic_classes.h"
#include "pleach/workload/strategy.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

// What is wrong with a text, if anything is.
using Read = std::function<std::optional<std::string>(const std::string& text)>;

template <typename Parse>
Read reading(Parse parse) {
  return [parse](const std::string& text) -> std::optional<std::string> {
    const auto result = parse(text);
    return result ? std::nullopt : std::optional(result.error().message);
  };
}

// Text that has meaning somewhere, and numbers at the ends of what can be counted.
const std::vector<std::string> kWords = {
    "0", "-1", "1e30", "nan",  "2147483648", "->", ",",    ";",  ":",      "99999999999999999999",
    "=", "\n", "-",    "\xc3", "\xc3\xa9",   "%",  "GB/s", "ns", "\"[{#'", std::string(1, '\0')};

std::string damaged(std::string text, Rng& rng) {
  for (uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
    const std::size_t position = rng.below(text.size() + 1);
    switch (rng.below(5)) {
      case 0:
        text.insert(position, kWords[rng.below(kWords.size())]);
        break;
      case 1:
        text.insert(position, text.substr(rng.below(text.size() + 1), rng.below(20)));
        break;
      case 2:
        text.erase(position, 1 + rng.below(8));
        break;
      default:
        if (position < text.size()) {
          text[position] = static_cast<char>(rng.below(256));
        }
    }
  }
  return text;
}

void expect_line(const std::string& message, const std::string& text) {
  EXPECT_FALSE(message.empty()) << text;
  EXPECT_LT(message.size(), 2'000U) << text;
  for (const char letter : message) {
    EXPECT_GE(static_cast<unsigned char>(letter), 0x20) << message << "\nof: " << text;
  }
}

// Reads the texts, which are good, and many that are nearly so.
void survive(const std::vector<std::string>& texts, const Read& read, int trials) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  int refused = 0;
  trials *= std::getenv("PLEACH_LONG") != nullptr ? 50 : 1;
  for (const std::string& text : texts) {
    EXPECT_EQ(read(text), std::nullopt) << text;
    for (int trial = 0; trial < trials; ++trial) {
      const std::string other = damaged(text, rng);
      const std::optional<std::string> message = read(other);
      if (message) {
        ++refused;
        expect_line(*message, other);
      }
    }
  }
  EXPECT_GT(refused, trials / 20);
}

TEST(DamagedText, OfTopologies) {
  survive({"fred:D,npus=24,levels=2,middle=2,taper=2,lanes=3,io=4,switch_latency=5ns",
           "fred:A,view=plane,io_bandwidth=1GB/s", "wafer_mesh:5x4,io=none,latency=2ns",
           "switch_tree:3x4,switch=fred,middle=2,io=3,reduce,multicast,taper=2",
           "fred:D,without_lane=l1.0-l2.0,without_node=io3,without_link=io5-l1.1"},
          reading(load_topology), 1'000);
}

TEST(DamagedText, OfTopologyFiles) {
  const std::string text = R"(name = "t"
defaults = { bandwidth = "1GB/s", latency = "100ns" }
node = [
  { name = "r{i}", count = { i = 3 } }, { name = "io", kind = "io" },
  { name = "hub", kind = "switch", reduce = true, multicast = true, switch = "fred,middle=2" },
]
cable = [{ source = "r{i}", target = "hub", count = { i = 3 }, lanes = 2 },
         { source = "io", target = "hub" }]
)";
  survive({text}, reading([](const std::string& damaged) -> Result<Topology> {
            PLEACH_ASSIGN(topology, parse_topology_toml(damaged, "t.toml"));
            PLEACH_TRY(check_switches(topology));
            return topology;
          }),
          10'000);
}

TEST(DamagedText, OfSwitchesAndFlows) {
  survive({"fred,middle=2", "tail_drop"},
          reading([](const std::string& text) { return switch_models().select(text); }), 1'000);
  survive({"0,2->0,2; 1->3", "0-3->4; 4-7->5,6"},
          reading([](const std::string& text) { return parse_flows(text, 8); }), 10'000);
  survive({"5,4,1"}, reading(parse_switch_strategy), 1'000);
  survive({"wait", "decompose"}, reading(parse_on_conflict), 200);
}

TEST(DamagedText, OfStrategiesAndClasses) {
  survive({"dp=5,tp=2,pp=2,stream=io,outputs=multicast,micro_batches=4",
           "dp=3,tp=3,pp=2,idle=2,placement=mesh", "tp=2,pp=2,placement=0-2-1-3,dp=1,idle=16",
           "dp=2,tp=2,placement=3-2-1-0,idle=16", "tp=20,placement=search,placement_seed=3"},
          reading([](const std::string& text) { return parse_strategy(text, 20); }), 500);
  survive({"role", "tensor,pipeline,data", "io,expert data"}, reading(TrafficClasses::parse), 500);
}

TEST(DamagedText, OfGroups) {
  const Topology wafer = support::topology_of("fred:D");
  survive({"0,4,8;1,5,9", "0-3; 4-7"}, reading([&](const std::string& text) {
            return parse_groups(wafer, text, CollectiveKind::kAllReduce);
          }),
          10'000);
  survive({"4:0-7;io0:8-15", "io:0-19"}, reading([&](const std::string& text) {
            return parse_groups(wafer, text, CollectiveKind::kBroadcast);
          }),
          10'000);
}

TEST(DamagedText, OfNetworkModels) {
  survive({"flit,router=fred,data_packet=1KiB,data_flit=64B,data_buffer=8KiB,loss=1%,timeout=5us",
           "flit,router=fred,data_vcs=2,control_packet=256B,ack_every=8,port_rate=1TB/s,seed=3"},
          reading([](const std::string& text) { return network_models().select(text); }), 1'000);
}

}  // namespace
}  // namespace pleach
