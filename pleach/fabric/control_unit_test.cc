#include "pleach/fabric/control_unit.h"

#include <gtest/gtest.h>

#include "pleach/fabric/fred_router.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

TEST(ControlUnit, HoldsThePublishedNumberOfPhases) {
  const FredSwitch fred = FredSwitch::create({12, 3}).value();
  EXPECT_EQ(fred.count().cells, 75);
  EXPECT_EQ(configuration_bits(fred.size(), BitCount::kPublished), 225);
  ControlUnit unit(fred, kConfigurationMemoryBytes, BitCount::kPublished);
  EXPECT_EQ(unit.capacity(), 54);
  for (int32_t phase = 1; phase <= 54; ++phase) {
    EXPECT_EQ(unit.add(Configuration(fred.cells().size())).value(), phase);
  }
  EXPECT_EQ(unit.add(Configuration(fred.cells().size())).error().message,
            "phase 55 of 225 bits: 1536 bytes hold 54");
  EXPECT_TRUE(unit.find(54));
  EXPECT_EQ(unit.find(0).error().message, "configuration 0 is outside 1 to 54");
  EXPECT_FALSE(unit.find(55));
}

TEST(ControlUnit, CountsWhatTellsAllModesApart) {
  // 12 + 18 + 18 R and D of 9 modes, 18 multiplexers of 3, 27 RD.
  EXPECT_EQ(configuration_bits({12, 3}, BitCount::kExact), 48 * 4 + 18 * 2 + 27 * 3);
  EXPECT_EQ(configuration_bits({8, 2}, BitCount::kExact), 16 * 2 + 4 * 3);
  EXPECT_EQ(configuration_bits({8, 2}, BitCount::kPublished), 60);
  EXPECT_EQ(configuration_bits({2, 5}, BitCount::kExact), 3);
}

TEST(ControlUnit, GivesBackConfigurationsThatDoTheSame) {
  Rng rng(5);
  for (int32_t round = 0; round < 2000; ++round) {
    const FredSize size = {2 + static_cast<int32_t>(rng.below(12)),
                           2 + static_cast<int32_t>(rng.below(4))};
    const std::vector<PortFlow> flows = support::random_flows(size.ports, rng);
    const FlowRouting routing = route_flows(size, flows);
    if (!routing.routed) {
      continue;
    }
    const FredSwitch fred = FredSwitch::create(size).value();
    const Configuration modes = configure(fred, flows, routing.choices);
    const std::vector<bool> bits = encode_configuration(fred, modes);
    EXPECT_EQ(bits.size(), static_cast<std::size_t>(configuration_bits(size, BitCount::kExact)));
    ControlUnit unit(fred, 1 << 20, BitCount::kExact);
    const Configuration read = unit.find(unit.add(modes).value()).value();
    const Status status = check_configuration(fred, flows, read);
    EXPECT_TRUE(status) << size.text() << " " << flows_text(flows) << ": "
                        << status.error().message;
    EXPECT_EQ(encode_configuration(fred, read), bits);
  }
}

TEST(ControlUnit, RefusesBitsThatAreNoConfiguration) {
  const FredSwitch fred = FredSwitch::create({3, 3}).value();
  EXPECT_EQ(decode_configuration(fred, std::vector<bool>(5)).error().message,
            "5 bits: a configuration of FRED_3(3) has 21");
  EXPECT_EQ(decode_configuration(fred, std::vector<bool>(21, true)).error().message,
            "cell R0: has no mode of code 15");
}

}  // namespace
}  // namespace pleach
