// How the flat space is cut: by hand, and on random models of the kinds that are hard to cut.
#include "pleach/policy/atoms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "tests/support/random_profiles.h"

namespace pleach {
namespace {

using Sizes = std::vector<int64_t>;

// Tensors of one layer each, of elements of 4 bytes on two ranks.
std::vector<AtomTensor> of_sizes(const Sizes& sizes) {
  std::vector<AtomTensor> tensors;
  for (const int64_t bytes : sizes) {
    tensors.push_back({.size_bytes = bytes, .layer = count_of(tensors), .quantum_bytes = 8});
  }
  return tensors;
}

Sizes cut(const std::vector<AtomTensor>& tensors, const AtomRules& rules) {
  const auto atoms = cut_atoms(tensors, rules);
  if (!atoms) {
    ADD_FAILURE() << atoms.error().message;
    return {};
  }
  return *atoms;
}

TEST(CutAtoms, CutsLargeTensorsEvenlyAtQuanta) {
  EXPECT_EQ(cut(of_sizes({4, 100, 28}), {.least_bytes = 1 << 20}), (Sizes{4, 100, 28}));
  // 100 bytes are 12 quanta and 4 bytes.
  EXPECT_EQ(cut(of_sizes({4, 100, 28}), {.least_bytes = 24}), (Sizes{4, 24, 24, 24, 28, 28}));
  EXPECT_EQ(cut(of_sizes({4, 100, 28}), {.least_bytes = 40}), (Sizes{4, 48, 52, 28}));
  EXPECT_EQ(cut(of_sizes({4, 100, 28}), {.least_bytes = 9}),
            (Sizes{4, 16, 16, 16, 16, 16, 20, 28}));
  EXPECT_EQ(cut({}, {}), Sizes{});
}

TEST(CutAtoms, JoinsNeighboursOfALayerAndABuffer) {
  const std::vector<AtomTensor> tensors = {{.size_bytes = 4, .layer = 0},
                                           {.size_bytes = 4, .layer = 0},
                                           {.size_bytes = 4, .layer = 0},
                                           {.size_bytes = 4, .layer = 1},
                                           {.size_bytes = 90, .layer = 2},
                                           {.size_bytes = 4, .layer = 2},
                                           {.size_bytes = 4, .layer = 2, .buffer = 1}};
  const AtomRules whole{.least_bytes = 1000};
  EXPECT_EQ(cut(tensors, whole), (Sizes{4, 4, 4, 4, 90, 4, 4}));
  EXPECT_EQ(cut(tensors, {.least_bytes = 1000, .join_bytes = 8}), (Sizes{8, 4, 4, 90, 4, 4}));
  EXPECT_EQ(cut(tensors, {.least_bytes = 1000, .join_bytes = 100}), (Sizes{12, 4, 94, 4}));
  EXPECT_EQ(cut(tensors, {.least_bytes = 30, .join_bytes = 12}), (Sizes{12, 4, 30, 30, 30, 4, 4}));
}

TEST(CutAtoms, JoinsTheSmallestWhereThereAreTooMany) {
  // Six may stay.
  EXPECT_EQ(cut(of_sizes({50, 4, 4, 4, 50, 50, 4, 50}), {.least_bytes = 1000, .most_atoms = 8}),
            (Sizes{50, 12, 50, 50, 4, 50}));
  // Those of one layer first, though others are smaller.
  std::vector<AtomTensor> tensors = of_sizes({1, 1, 1, 30, 30});
  tensors[4].layer = tensors[3].layer;
  EXPECT_EQ(cut(tensors, {.least_bytes = 1000, .most_atoms = 5}), (Sizes{1, 1, 1, 60}));
  // Of two buffers that take turns none can be.
  tensors = of_sizes({4, 4, 4, 4, 4});
  tensors[1].buffer = tensors[3].buffer = 1;
  EXPECT_EQ(cut(tensors, {.most_atoms = 3}), (Sizes{4, 4, 4, 4, 4}));
}

TEST(CutAtoms, LeavesCutsToALargeTensorAmongMany) {
  std::vector<AtomTensor> tensors = of_sizes(Sizes(3000, 4));
  tensors[1000].size_bytes = 1 << 20;
  const Sizes atoms = cut(tensors, {});
  EXPECT_LE(atoms.size(), at(kMostAtoms));
  EXPECT_LE(*std::ranges::max_element(atoms), (1 << 20) / 256 + 8);
}

TEST(CutAtoms, RefusesWhatMakesNoSense) {
  const struct {
    std::vector<AtomTensor> tensors;
    AtomRules rules;
    const char* message;
  } cases[] = {
      {{{.size_bytes = 0}}, {}, "tensor 0: its 0 bytes are out of range"},
      {{{.size_bytes = kMostProfileBytes}, {.size_bytes = 1}},
       {},
       "tensor 1: its 1 bytes are out of range"},
      {{{.size_bytes = 4, .quantum_bytes = 0}}, {}, "tensor 0: it cannot be cut every 0 bytes"},
      {{{.size_bytes = 4, .layer = 2}, {.size_bytes = 4, .layer = 1}},
       {},
       "tensor 1: it is of layer 1, and the one before of layer 2"},
      {{}, {.least_bytes = 0}, "atoms of at least 0 bytes, joined to 0 bytes, 1024 at most"},
      {{}, {.most_atoms = 0}, "atoms of at least 1 bytes, joined to 0 bytes, 0 at most"},
  };
  for (const auto& one : cases) {
    const auto atoms = cut_atoms(one.tensors, one.rules);
    ASSERT_FALSE(atoms) << one.message;
    EXPECT_EQ(atoms.error().message, one.message);
  }
}

// Random models with elements of 2, 4 and 8 bytes: what the contract says of every cut.
TEST(CutAtoms, KeepsElementsWholeAndSharesAtLeast) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const TrainingProfile profile = support::draw_hard_profile(rng);
    std::vector<AtomTensor> tensors;
    for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
      for (const int64_t bytes : profile.layers[layer].tensor_bytes) {
        tensors.push_back({.size_bytes = bytes,
                           .layer = static_cast<int32_t>(layer),
                           .quantum_bytes = int64_t{1} << rng.below(9),
                           .buffer = static_cast<int32_t>(rng.below(30) / 29)});
      }
    }
    const AtomRules rules{.least_bytes = 1 + static_cast<int64_t>(rng.below(100'000)),
                          .join_bytes = static_cast<int64_t>(rng.below(10'000))};
    const Sizes atoms = cut(tensors, rules);
    EXPECT_LE(atoms.size(), at(kMostAtoms));
    std::size_t tensor = 0;
    int64_t begin_bytes = 0;  // within the tensor
    for (const int64_t bytes : atoms) {
      ASSERT_GT(bytes, 0);
      ASSERT_LT(tensor, tensors.size());
      const std::size_t first = tensor;
      const bool is_part = begin_bytes > 0 || bytes < tensors[tensor].size_bytes;
      begin_bytes += bytes;
      while (tensor < tensors.size() && begin_bytes >= tensors[tensor].size_bytes) {
        begin_bytes -= tensors[tensor].size_bytes;
        ++tensor;
        ASSERT_TRUE(begin_bytes == 0 || tensors[tensor].buffer == tensors[first].buffer);
      }
      if (is_part) {  // of one tensor, and long enough
        EXPECT_GE(bytes, rules.least_bytes);
        EXPECT_TRUE(begin_bytes == 0 || begin_bytes % tensors[first].quantum_bytes == 0);
        EXPECT_TRUE(tensor == first || (tensor == first + 1 && begin_bytes == 0));
      } else {
        EXPECT_EQ(begin_bytes, 0);  // whole tensors
      }
    }
    EXPECT_EQ(tensor, tensors.size());
  }
}

TEST(OwnAtoms, IsBalanced) {
  EXPECT_EQ(own_atoms(Sizes{5, 5, 4, 4, 3, 3, 3}, 3), (std::vector<int32_t>{0, 1, 2, 2, 0, 1, 0}));
  EXPECT_EQ(own_atoms(Sizes{1, 9}, 1), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(own_atoms(Sizes{}, 4), std::vector<int32_t>{});
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    Sizes sizes;
    for (uint64_t left = 1 + rng.below(60); left > 0; --left) {
      sizes.push_back(1 + static_cast<int64_t>(rng.below(uint64_t{1} << (1 + rng.below(20)))));
    }
    const auto ranks = static_cast<int32_t>(1 + rng.below(9));
    const std::vector<int32_t> owners = own_atoms(sizes, ranks);
    Sizes loads(at(ranks));
    for (std::size_t atom = 0; atom < sizes.size(); ++atom) {
      loads[at(owners[atom])] += sizes[atom];
    }
    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    const int64_t least = std::max(*std::ranges::max_element(sizes), (total + ranks - 1) / ranks);
    // Nobody could have less than `least` as the fullest; 4/3 is of what can be reached.
    EXPECT_LE(*std::ranges::max_element(loads), total / ranks + *std::ranges::max_element(sizes));
    EXPECT_GE(*std::ranges::max_element(loads), least);
  }
}

}  // namespace
}  // namespace pleach
