#include "pleach/fabric/configuration.h"

#include <gtest/gtest.h>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_router.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

Configuration routed(const FredSwitch& fred, const std::vector<PortFlow>& flows) {
  const FlowRouting routing = route_flows(fred.size(), flows);
  EXPECT_TRUE(routing.routed) << flows_text(flows);
  return configure(fred, flows, routing.choices);
}

TEST(Configuration, NamesWhatCellsDo) {
  EXPECT_EQ(mode_text(CellKind::kReduce, {}), "idle");
  EXPECT_EQ(mode_text(CellKind::kReduce, {2, 0}), "0>2 1>0");
  EXPECT_EQ(mode_text(CellKind::kReduce, {2, 2}), "0+1>2");
  EXPECT_EQ(mode_text(CellKind::kReduce, {-1, 1}), "1>1");
  EXPECT_EQ(mode_text(CellKind::kDemux, {1, -1}), "0>1");
  EXPECT_EQ(mode_text(CellKind::kMux, {1, -1}), "1>0");
  EXPECT_EQ(mode_text(CellKind::kDistribute, {2, 0}), "2>0 0>1");
  EXPECT_EQ(mode_text(CellKind::kDistribute, {2, 2}), "2>0,1");
  EXPECT_EQ(mode_text(CellKind::kBoth, {3, 3}), "0+1>0,1");
  EXPECT_EQ(mode_text(CellKind::kBoth, {2, 1}), "1>0 0>1");
  EXPECT_EQ(mode_text(CellKind::kBoth, {0, 3}), "0+1>1");
}

// What comes out of the cells is what arithmetic says, on every size, odd ones too.
TEST(Configuration, ReducesAndDistributesPayloads) {
  Rng rng(11);
  constexpr std::size_t kLength = 3;
  int32_t executed = 0;
  for (int32_t round = 0; round < 2000; ++round) {
    const FredSize size = {2 + static_cast<int32_t>(rng.below(20)),
                           2 + static_cast<int32_t>(rng.below(3))};
    const std::vector<PortFlow> flows = support::random_flows(size.ports, rng);
    const FlowRouting routing = route_flows(size, flows);
    if (!routing.routed) {
      continue;
    }
    ++executed;
    std::vector<std::optional<Payload>> payloads(at(size.ports));
    std::vector<std::optional<Payload>> expected(at(size.ports));
    for (const PortFlow& flow : flows) {
      Payload sum(kLength, 0);
      for (const int32_t port : flow.inputs) {
        Payload& payload = payloads[at(port)].emplace();
        for (std::size_t element = 0; element < kLength; ++element) {
          payload.push_back(static_cast<int64_t>(rng.below(1'000'000)));
          sum[element] += payload[element];
        }
      }
      for (const int32_t port : flow.outputs) {
        expected[at(port)] = sum;
      }
    }
    const FredSwitch fred = FredSwitch::create(size).value();
    EXPECT_EQ(execute(fred, configure(fred, flows, routing.choices), payloads), expected)
        << size.text() << " " << flows_text(flows);
  }
  EXPECT_GT(executed, 1000);
}

TEST(Configuration, IsRefusedWhereACellDoesSomethingElse) {
  const FredSwitch fred = FredSwitch::create({4, 2}).value();
  const std::vector<PortFlow> flows = parse_flows("0,1->0,1; 2->2; 3->3", 4).value();
  const Configuration good = routed(fred, flows);
  ASSERT_TRUE(check_configuration(fred, flows, good));
  const auto refusal = [&](CellKind kind, int32_t level, int32_t index, const CellMode& mode) {
    Configuration modes = good;
    modes[at(fred.find(kind, level, 0, index))] = mode;
    const Status status = check_configuration(fred, flows, modes);
    return status ? "accepted" : status.error().message;
  };
  EXPECT_EQ(refusal(CellKind::kReduce, 0, 1, {0, 0}), "cell R1: adds flows 1 and 2");
  EXPECT_EQ(refusal(CellKind::kReduce, 0, 1, {0, -1}), "cell R1: loses flow 2 at input 1");
  EXPECT_EQ(refusal(CellKind::kReduce, 0, 0, {2, 0}), "cell R0: has no mode 2, 0");
  EXPECT_EQ(refusal(CellKind::kBoth, 1, 0, {4, 0}), "cell 0/RD: has no mode 4, 0");
  EXPECT_EQ(check_configuration(fred, flows, {}).error().message, "0 modes for 6 cells");
}

// Whatever one cell does else is refused, unless it makes no difference to what comes out.
TEST(Configuration, IsRefusedExactlyWhereSomethingElseComesOut) {
  Rng rng(12);
  int32_t refused = 0;
  for (int32_t round = 0; round < 3000; ++round) {
    const FredSize size = {3 + static_cast<int32_t>(rng.below(6)),
                           2 + static_cast<int32_t>(rng.below(2))};
    const std::vector<PortFlow> flows = support::random_flows(size.ports, rng);
    const FlowRouting routing = route_flows(size, flows);
    if (!routing.routed) {
      continue;
    }
    const FredSwitch fred = FredSwitch::create(size).value();
    Configuration modes = configure(fred, flows, routing.choices);
    CellMode& mode = modes[rng.below(modes.size())];
    (rng.below(2) == 0 ? mode.first : mode.second) = static_cast<int32_t>(rng.below(3)) - 1;
    const Status status = check_configuration(fred, flows, modes);
    refused += status ? 0 : 1;
    if (!status) {
      continue;
    }
    std::vector<std::optional<Payload>> payloads(at(size.ports));
    std::vector<std::optional<Payload>> expected(at(size.ports));
    for (const PortFlow& flow : flows) {
      int64_t sum = 0;
      for (const int32_t port : flow.inputs) {
        payloads[at(port)] = {static_cast<int64_t>(rng.below(1'000'000))};
        sum += payloads[at(port)]->front();
      }
      for (const int32_t port : flow.outputs) {
        expected[at(port)] = {sum};
      }
    }
    EXPECT_EQ(execute(fred, modes, payloads), expected) << size.text() << flows_text(flows);
  }
  EXPECT_GT(refused, 300);
}

TEST(Configuration, ShowsTheWayOfEachFlow) {
  const FredSwitch fred = FredSwitch::create({5, 2}).value();
  const std::vector<PortFlow> flows = parse_flows("4->0,1; 0->4", 5).value();
  std::vector<std::string> ways;
  for (const std::vector<int32_t>& way : ways_of(fred, flows, routed(fred, flows))) {
    std::string text;
    for (const int32_t cell : way) {
      text += fred.name_of(fred.cells()[at(cell)]) + " ";
    }
    ways.push_back(text);
  }
  EXPECT_EQ(ways, (std::vector<std::string>{"demux 0/demux 0.0/RD 0/D0 D0 ",
                                            "R0 1/R0 1.0/RD 1/mux mux "}));
}

}  // namespace
}  // namespace pleach
