// What no profile may be, and where layers lie in the flat space.
#include "pleach/policy/profile.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/base/units.h"

namespace pleach {
namespace {

TEST(CheckProfile, RefusesWhatMakesNoSense) {
  const struct {
    TrainingProfile profile;
    const char* message;  // empty: it is good
  } cases[] = {
      {{.layers = {{.tensor_bytes = {4, 4}, .forward_ps = 1, .backward_ps = 2}}}, ""},
      {{.layers = {{.tensor_bytes = {}}}}, ""},
      {{.layers = {}}, "a profile without layers"},
      {{.layers = {{.tensor_bytes = {4}}}, .rank_count = 0}, "a group of 0 ranks"},
      {{.layers = {{.tensor_bytes = {4, 0}}}}, "layer 0: a tensor of 0 bytes"},
      {{.layers = {{.tensor_bytes = {INT64_MAX}}}}, "layer 0: a tensor of 9223372036854775807"},
      {{.layers = {{.tensor_bytes = {1}}, {.tensor_bytes = {}, .forward_ps = -1}}},
       "layer 1: forward time of -1 is out of range"},
      {{.layers = {{.tensor_bytes = {}, .backward_ps = kLongestPs + 1}}},
       "layer 0: backward time of 2305843009213693952 is out of range"},
      {{.layers = {{.tensor_bytes = {}, .backward_ps = 1, .weight_gradient_ps = 2}}},
       "layer 0: weight gradient time of 2 ps exceeds its backward's 1 ps"},
      {{.layers = {{.tensor_bytes = {}, .exchange_bytes = -5}}},
       "layer 0: exchange of -5 is out of range"},
      {{.layers = {{.tensor_bytes = {}, .forward_ps = kLongestPs}}}, ""},
      {{.layers = {{.tensor_bytes = {}, .forward_ps = kLongestPs, .backward_ps = 1}}},
       "layer 0: the time of the layers so far is out of range"},
      {{.layers = {{.tensor_bytes = {}, .forward_ps = kLongestPs - 1},
                   {.tensor_bytes = {}, .backward_ps = 2}}},
       "layer 1: the time of the layers so far is out of range"},
      {{.layers = {{.tensor_bytes = std::vector<int64_t>(65, INT64_MAX / 64)}}},
       "layer 0: the sum of bytes of the layers so far is out of range"},
      {{.layers = {{.tensor_bytes = {4, 4}}}, .atom_bytes = {3, 5}}, ""},
      {{.layers = {{.tensor_bytes = {}}}, .atom_bytes = {1}},
       "atom 0 of 1 bytes, from byte 0 of 0"},
      {{.layers = {{.tensor_bytes = {4, 4}}}, .atom_bytes = {8, 0}},
       "atom 1 of 0 bytes, from byte 8 of 8 on"},
      {{.layers = {{.tensor_bytes = {4, 4}}}, .atom_bytes = {4, INT64_MAX}},
       "atom 1 of 9223372036854775807 bytes, from byte 4 of 8 on"},
      {{.layers = {{.tensor_bytes = {4, 4}}}, .atom_bytes = {4, 3}},
       "the atoms have 7 of the tensors' 8 bytes"},
  };
  for (const auto& one : cases) {
    const Status status = check_profile(one.profile);
    const std::string message = status ? "" : status.error().message;
    EXPECT_EQ(message.substr(0, std::string(one.message).size()), one.message);
    EXPECT_EQ(message.empty(), std::string(one.message).empty()) << message;
  }
}

TEST(ParameterSpace, LaysTensorsEndToEnd) {
  const ParameterSpace space(
      {.layers = {{.tensor_bytes = {4, 6}}, {.tensor_bytes = {}}, {.tensor_bytes = {5}}}});
  EXPECT_EQ(space.layer_count(), 3);
  EXPECT_EQ(space.total_bytes(), 15);
  EXPECT_EQ(space.layer(0), (ByteRange{0, 10}));
  EXPECT_EQ(space.layer(1), (ByteRange{10, 10}));
  EXPECT_EQ(space.tensors(), (std::vector<ByteRange>{{0, 4}, {4, 10}, {10, 15}}));
  EXPECT_EQ(space.layer_of(9), 0);
  EXPECT_EQ(space.layer_of(10), 2);
  EXPECT_EQ(space.atom_count(), 3);
  EXPECT_EQ(space.atoms(1, 3), (ByteRange{4, 15}));
}

TEST(ParameterSpace, KnowsItsAtoms) {
  const ParameterSpace space({.layers = {{.tensor_bytes = {4, 6}}, {.tensor_bytes = {5}}},
                              .atom_bytes = {3, 8, 4}});  // at 3 and 11
  EXPECT_EQ(space.atom_count(), 3);
  EXPECT_EQ(space.atoms(0, 2), (ByteRange{0, 11}));
  for (const auto& [byte, atom] : std::vector<std::pair<int64_t, int32_t>>{
           {0, 0}, {3, 1}, {11, 2}, {15, 3}, {4, -1}, {16, -1}}) {
    EXPECT_EQ(space.atom_at(byte), atom) << byte;
  }
  for (const auto& [byte, cut] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 0}, {1, 0}, {2, 3}, {7, 3}, {8, 11}, {13, 11}, {14, 15}, {15, 15}}) {
    EXPECT_EQ(space.nearest_cut(byte), cut) << byte;
  }
  EXPECT_EQ(space.at_atoms(std::vector<ByteRange>{{0, 4}, {4, 10}, {10, 15}}),
            (std::vector<ByteRange>{{0, 3}, {3, 11}, {11, 15}}));
  EXPECT_EQ(space.at_atoms(std::vector<ByteRange>{{0, 1}, {1, 6}, {6, 7}, {7, 15}}),
            (std::vector<ByteRange>{{0, 3}, {3, 15}}));
}

TEST(ParameterSpace, CutsByItselfAtAnElementForEachRank) {
  TrainingProfile profile{.layers = {{.tensor_bytes = {100}}, {.tensor_bytes = {4, 40}}},
                          .rank_count = 3};
  const ParameterSpace space(profile);  // quanta of 24 bytes
  EXPECT_EQ(space.atom_count(), 6);
  for (const int64_t byte : {24, 48, 72, 100, 104}) {
    EXPECT_GE(space.atom_at(byte), 0) << byte;
  }
}

}  // namespace
}  // namespace pleach
