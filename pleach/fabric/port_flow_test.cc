#include "pleach/fabric/port_flow.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(PortFlow, ReadsAndWrites) {
  EXPECT_EQ(parse_flows("0,2->0,2; 1->3", 8).value(),
            (std::vector<PortFlow>{{{0, 2}, {0, 2}}, {{1}, {3}}}));
  EXPECT_EQ(parse_flows(" 7 , 4-6->3,0 ;1 -> 2", 8).value(),
            (std::vector<PortFlow>{{{4, 5, 6, 7}, {0, 3}}, {{1}, {2}}}));
  EXPECT_TRUE(parse_flows("", 2)->empty());
  EXPECT_TRUE(parse_flows("  ", 2)->empty());
  EXPECT_EQ(flows_text(*parse_flows("2,0->0-2;1->3", 8)), "0,2->0,1,2; 1->3");
}

struct Refusal {
  const char* text;
  const char* message;
};

TEST(PortFlow, RefusesNamingFlowAndPort) {
  const Refusal refusals[] = {
      {"0->8", "flow 0: output port '8' is outside 0 to 7"},
      {"0->1; 9->2", "flow 1: input port '9' is outside 0 to 7"},
      {"-1->2", "flow 0: input port '' is not a whole number"},
      {"99999999999999999999->2", "flow 0: input port '99999999999999999999' is outside 0 to 7"},
      {"0->1; 2,2->3", "flow 1: input port 2 is named twice"},
      {"0->1-3,2", "flow 0: output port 2 is named twice"},
      {"->1", "flow 0 has no input port"},
      {"0->1; 2->", "flow 1 has no output port"},
      {"0->1; 0->2", "flow 1: input port 0 is one of flow 0 already"},
      {"0->1; 2->3; 4->3,1", "flow 2: output port 1 is one of flow 0 already"},
      {"0->1;", "flow 1: '' is no flow: it reads INPUTS->OUTPUTS, as 0,2->0,2"},
      {"0-1", "flow 0: '0-1' is no flow: it reads INPUTS->OUTPUTS, as 0,2->0,2"},
      {"0->1->2", "flow 0: output port '>2' is not a whole number"},
      {"0,->1", "flow 0: input port '' is not a whole number"},
      {"3-1->1", "flow 0: input port '1' is outside 3 to 7"},
      {"a->1", "flow 0: input port 'a' is not a whole number"},
      {"0.5->1", "flow 0: input port '0.5' is not a whole number"},
  };
  for (const auto& [text, message] : refusals) {
    const auto flows = parse_flows(text, 8);
    ASSERT_FALSE(flows) << text;
    EXPECT_EQ(flows.error().message, message) << text;
  }
  const PortFlow backwards = {{2, -1}, {0}};
  EXPECT_EQ(check_flows({&backwards, 1}, 8).error().message,
            "flow 0: input port -1 is outside 0 to 7");
  const PortFlow twice = {{2, 2}, {0}};
  EXPECT_EQ(check_flows({&twice, 1}, 8).error().message, "flow 0: input port 2 is named twice");
}

// Whatever the text: it is read, and then reads the same again, or is refused in one line.
TEST(PortFlow, ReadsAnyTextOrRefusesIt) {
  constexpr std::array kPieces = {"0",  "1",      "2",  "3",    "7",  "8",         "->",
                                  "->", ",",      ",",  ";",    "; ", "-",         " ",
                                  ">",  "x",      "\n", "\xff", "\0", "->",        "0->1",
                                  "",   "4,5->6", "10", "-1",   "\t", "9999999999"};
  Rng rng(1);
  int32_t read = 0;
  for (int32_t round = 0; round < 200'000; ++round) {
    std::string text;
    for (uint64_t left = 1 + rng.below(12); left > 0; --left) {
      text += kPieces[rng.below(kPieces.size())];
    }
    if (rng.below(4) == 0 && !text.empty()) {
      text[rng.below(text.size())] = static_cast<char>(rng.below(256));
    }
    const auto flows = parse_flows(text, 8);
    if (!flows) {
      EXPECT_EQ(flows.error().message.find('\n'), std::string::npos) << text;
      EXPECT_EQ(flows.error().message.substr(0, 5), "flow ") << text;
      continue;
    }
    ++read;
    EXPECT_TRUE(check_flows(*flows, 8)) << text;
    EXPECT_EQ(parse_flows(flows_text(*flows), 8).value(), *flows) << text;
  }
  EXPECT_GT(read, 1000);
}

}  // namespace
}  // namespace pleach
