#include "pleach/fabric/flow_patterns.h"

#include <gtest/gtest.h>

#include <numeric>

#include "pleach/base/text.h"

namespace pleach {
namespace {

// Phases, one a line.
std::string phases(std::string_view pattern, const PatternPorts& ports) {
  const auto made = pattern_phases(parse_flow_pattern(pattern).value(), ports);
  if (!made) {
    return made.error().message;
  }
  std::vector<std::string> lines;
  for (const std::vector<PortFlow>& flows : *made) {
    lines.push_back(flows_text(flows));
  }
  return join(lines, "\n");
}

TEST(FlowPatterns, AreTheFlowsOfThePublishedTable) {
  EXPECT_EQ(phases("unicast", {{3}, {1}}), "3->1");
  EXPECT_EQ(phases("unicast", {{3, 1}}), "3->1");
  EXPECT_EQ(phases("multicast", {{0}, {2, 5}}), "0->2,5");
  EXPECT_EQ(phases("multicast", {{5, 0, 2}}), "5->0,2");
  EXPECT_EQ(phases("reduce", {{0, 2}, {5}}), "0,2->5");
  EXPECT_EQ(phases("reduce", {{2, 0, 5}}), "0,2,5->2");
  EXPECT_EQ(phases("all_reduce", {{5, 0, 2}}), "0,2,5->0,2,5");
  EXPECT_EQ(phases("all_reduce", {{0, 2}, {1, 3, 4}}), "0,2->1,3,4");
  EXPECT_EQ(phases("reduce_scatter", {{0, 2, 5}}), "0,2,5->0\n0,2,5->2\n0,2,5->5");
  EXPECT_EQ(phases("all_gather", {{0, 2, 5}}), "0->0,2,5\n2->0,2,5\n5->0,2,5");
  EXPECT_EQ(phases("gather", {{0, 2}, {5}}), "0->5\n2->5");
  EXPECT_EQ(phases("gather", {{5, 0, 2}}), "5->5\n0->5\n2->5");
  EXPECT_EQ(phases("scatter", {{0}, {2, 5}}), "0->2\n0->5");
  EXPECT_EQ(phases("all_to_all", {{0, 2, 5}}),
            "0->0; 2->2; 5->5\n0->2; 2->5; 5->0\n0->5; 2->0; 5->2");
  EXPECT_EQ(phases("all_to_all", {{0, 1}, {2, 3}}), "0->2; 1->3\n0->3; 1->2");
  EXPECT_EQ(phases("all_reduce", {{4}}), "4->4");
}

TEST(FlowPatterns, LeaveOutWhatPortsSendToThemselves) {
  EXPECT_EQ(phases("all_to_all", {{0, 2}, {}, true}), "0->2; 2->0");
  EXPECT_EQ(phases("gather", {{5, 0, 2}, {}, true}), "0->5\n2->5");
  EXPECT_EQ(phases("all_reduce", {{5, 0}, {}, true}), "0,5->0,5");
}

TEST(FlowPatterns, RefuseMoreFlowsThanCanBeWritten) {
  std::vector<int32_t> ports(4000);
  std::iota(ports.begin(), ports.end(), 0);
  EXPECT_EQ(phases("reduce_scatter", {ports}),
            "reduce_scatter of 4000 ports to 4000 takes flows of 16004000 ports in all: at most "
            "10000000");
  EXPECT_EQ(phases("all_gather", {ports}).substr(0, 22), "all_gather of 4000 por");
  EXPECT_EQ(phases("all_to_all", {ports}).substr(0, 22), "all_to_all of 4000 por");
  EXPECT_EQ(phases("gather", {ports}).substr(0, 5), "0->0\n");
  EXPECT_EQ(phases("all_reduce", {ports}).substr(0, 4), "0,1,");
}

TEST(FlowPatterns, RefuseSidesThatTheyDoNotTake) {
  EXPECT_EQ(phases("reduce", {{}}), "reduce of no ports");
  EXPECT_EQ(phases("unicast", {{1, 2, 3}}), "unicast of 3 ports: it takes two");
  EXPECT_EQ(phases("multicast", {{1}}), "multicast of 1 port: it takes two or more");
  EXPECT_EQ(phases("multicast", {{1, 2}, {3}}), "multicast from 2 ports: it is from one");
  EXPECT_EQ(phases("reduce", {{1, 2}, {3, 4}}), "reduce to 2 ports: it is to one");
  EXPECT_EQ(phases("all_to_all", {{1, 2}, {3}}), "all_to_all from 2 ports to 1: it is to as many");
  EXPECT_EQ(phases("gather", {{1, 1}, {3}}), "input port 1 is named twice");
  EXPECT_EQ(phases("scatter", {{1}, {3, 3}}), "output port 3 is named twice");
  EXPECT_EQ(phases("scatter", {{-1}, {3}}), "input port -1 is below 0");
  EXPECT_EQ(parse_flow_pattern("all_reduc").error().message.substr(0, 51),
            "unknown pattern 'all_reduc'; did you mean 'all_redu");
}

}  // namespace
}  // namespace pleach
