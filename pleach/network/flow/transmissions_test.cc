#include "pleach/network/flow/transmissions.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

using Kind = FlowEvent::Kind;

// 1 GB/s: 1,000 ps per byte. Connections over the link from node 0 to node 1, or back.
class TransmissionsTest : public ::testing::Test {
 protected:
  using Ends = std::vector<std::pair<int32_t, int64_t>>;  // connection, time

  TransmissionsTest()
      : topology_(*parse_topology("fully_connected:2,bandwidth=1GB/s,latency=100ns")),
        transmissions_(topology_, events_) {}

  int32_t add(NodeId source, int64_t overhead_ps = 0) {
    lowered_.push_back(
        {.links = {link(source)}, .latency_ps = 100'000, .overhead_ps = overhead_ps});
    transmissions_.add(lowered_.back());
    events_.join(1, 1'000'000, 0);
    return static_cast<int32_t>(transmissions_.count()) - 1;
  }
  LinkId link(NodeId source) const { return topology_.links_out(source).front(); }

  // Handles all events; returns the ends in their order.
  Ends run() {
    Ends ends;
    while (!events_.empty()) {
      const FlowEvent event = events_.pop();
      if (event.kind == Kind::kFlowBegin) {
        transmissions_.flow(event.number, event.time_ps);
      } else if (transmissions_.end(event.number, event.generation, event.time_ps)) {
        ends.emplace_back(event.number, event.time_ps);
      }
      if (events_.empty() || events_.next_ps() > event.time_ps) {
        transmissions_.update(event.time_ps);
      }
    }
    return ends;
  }

  const Topology topology_;
  FlowEvents events_;
  Transmissions transmissions_;
  std::deque<LoweredConnection> lowered_;  // stay where they are
};

TEST_F(TransmissionsTest, AlonePaysOverheadAndItsBytes) {
  const int32_t alone = add(NodeId{0}, 7'000);
  transmissions_.attach(alone, 1, 0);
  EXPECT_FALSE(transmissions_.is_busy(alone));
  transmissions_.begin(alone, 1'000, 50);
  EXPECT_TRUE(transmissions_.is_busy(alone));
  EXPECT_EQ(run(), (Ends{{alone, 50 + 7'000 + 1'000'000}}));
  EXPECT_FALSE(transmissions_.is_busy(alone));
  const std::vector<LinkUse> use = transmissions_.use();
  EXPECT_EQ(use[link(NodeId{0}).index()].wire_bytes, 1'000);
  EXPECT_EQ(use[link(NodeId{0}).index()].busy_ps, 1'000'000) << "the overhead is not the link's";
  EXPECT_EQ(use[link(NodeId{1}).index()].wire_bytes, 0);
}

TEST_F(TransmissionsTest, TwoOfOneLinkShareItWhileBothTransmit) {
  const int32_t small = add(NodeId{0}), large = add(NodeId{0});
  transmissions_.attach(small, 2, 0);
  transmissions_.begin(small, 1'000, 0);
  transmissions_.begin(large, 3'000, 0);
  transmissions_.update(0);
  EXPECT_EQ(run(), (Ends{{small, 2'000'000}, {large, 4'000'000}}));
  EXPECT_EQ(transmissions_.use()[link(NodeId{0}).index()].busy_ps, 4'000'000);
}

// The first was alone when it began: from the second's attachment on it shares.
TEST_F(TransmissionsTest, CompanyTakesItsShareFromWhatIsUnderWay) {
  const int32_t first = add(NodeId{0});
  transmissions_.attach(first, 1, 0);
  transmissions_.begin(first, 2'000, 0);
  const int32_t second = add(NodeId{0});
  transmissions_.attach(second, 1, 1'000'000);
  transmissions_.begin(second, 500, 1'000'000);
  transmissions_.update(1'000'000);
  EXPECT_EQ(run(), (Ends{{second, 2'000'000}, {first, 2'500'000}}));
}

TEST_F(TransmissionsTest, OppositeDirectionsDoNotMeet) {
  const int32_t there = add(NodeId{0}), back = add(NodeId{1});
  transmissions_.attach(there, 2, 0);
  transmissions_.begin(there, 1'000, 0);
  transmissions_.begin(back, 1'000, 0);
  transmissions_.update(0);
  EXPECT_EQ(run(), (Ends{{there, 1'000'000}, {back, 1'000'000}}));
}

// What has left the network takes no share; nothing at all takes no time.
TEST_F(TransmissionsTest, DetachedConnectionsTakeNoShare) {
  const int32_t gone = add(NodeId{0}), here = add(NodeId{0});
  transmissions_.attach(gone, 2, 0);
  transmissions_.detach(gone, 1);
  transmissions_.begin(here, 1'000, 0);
  EXPECT_EQ(run(), (Ends{{here, 1'000'000}}));
  transmissions_.begin(here, 0, 2'000'000);
  EXPECT_EQ(run(), (Ends{{here, 2'000'000}}));
}

}  // namespace
}  // namespace pleach
