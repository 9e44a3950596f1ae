// The bits of a result depend on the schedule alone: every collective and type, over every
// transport, with random delays, again and again.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/record.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

constexpr int32_t kRanks = 4;

struct NamedSchedule {
  std::string name;
  Schedule schedule;
};

std::vector<NamedSchedule> all_schedules() {
  std::vector<NamedSchedule> all = {
      {"ring", support::ring_schedule(CollectiveKind::kAllReduce, kRanks)},
      {"halving and doubling", support::halving_schedule(kRanks)},
      {"direct", support::direct_schedule(CollectiveKind::kAllReduce, kRanks)}};
  Rng rng(20);
  for (const CollectiveKind collective : kAllCollectives) {
    std::string name(to_text(collective));
    switch (collective) {
      case CollectiveKind::kReduceScatter:
      case CollectiveKind::kAllGather:
      case CollectiveKind::kAllToAll:
        all.push_back({name, support::direct_schedule(collective, kRanks)});
        break;
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kBroadcast:
      case CollectiveKind::kReduce:
        all.push_back({name, support::random_tree_schedule(collective, kRanks, 3, rng)});
        break;
      default:
        break;
    }
  }
  return all;
}

// Values of about one size with every mantissa, so that each order of additions rounds otherwise.
void fill_rounding(ElementType type, Rng& rng, std::span<std::byte> bytes) {
  const auto element = at(element_bytes(type));
  for (std::size_t begin = 0; begin < bytes.size(); begin += element) {
    uint64_t bits = rng.next();
    const float single = static_cast<float>((rng.unit() - 0.5) * 4096);
    const double wide = (rng.unit() - 0.5) * 4096;
    switch (type) {
      case ElementType::kFloat32:
        std::memcpy(&bits, &single, sizeof(single));
        break;
      case ElementType::kFloat64:
        std::memcpy(&bits, &wide, sizeof(wide));
        break;
      case ElementType::kFloat16:  // 2^-5 to 2^3
        bits = (bits & 0x83ffU) | (10 + rng.below(9)) << 10U;
        break;
      case ElementType::kBFloat16:
        bits = (bits & 0x807fU) | (120 + rng.below(9)) << 7U;
        break;
      default:
        break;
    }
    std::memcpy(bytes.data() + begin, &bits, element);
  }
}

uint64_t hash_of(const std::vector<support::Bytes>& outputs) {
  Fingerprint hash;
  for (const support::Bytes& output : outputs) {
    hash.add(std::string_view(reinterpret_cast<const char*>(output.data()), output.size()));
  }
  return hash.value();
}

// All types in flight at once, in all that may differ between runs otherwise.
void run_once(const NamedSchedule& named, uint64_t seed,
              std::array<std::optional<uint64_t>, kAllElementTypes.size()>& hashes,
              int64_t count = 4 * 23) {
  std::vector<std::string> names = {"inproc", "shm", "tcp", "host/2"};
  if (transports().find("ucx")) {
    names.emplace_back("ucx");
  }
  Rng rng(seed);
  std::vector<support::Flight> flights;
  for (const ElementType type : kAllElementTypes) {
    const support::RunSetup setup{.type = type,
                                  .count = count,
                                  .segment_count = 1 + static_cast<int32_t>(rng.below(4)),
                                  .landing_places = 1 + static_cast<int32_t>(seed / 5 % 3),
                                  .transport = names[seed % names.size()],
                                  .delay_seed = seed,
                                  .lenders = rng.below(1 << kRanks)};
    flights.push_back({named.schedule, setup, [type](Rank rank, std::span<std::byte> input) {
                         Rng values(static_cast<uint64_t>(rank.value) * 100 +
                                    static_cast<uint64_t>(type));
                         fill_rounding(type, values, input);
                       }});
  }
  const std::vector<support::RunOutcome> outcomes = support::run_in_flight(flights);
  const Order order = Order::build(named.schedule);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    SCOPED_TRACE(to_text(kAllElementTypes[i]));
    for (const std::string& error : outcomes[i].errors) {
      ASSERT_EQ(error, "");
    }
    const uint64_t hash = hash_of(outcomes[i].outputs);
    hashes[i] = hashes[i].value_or(hash);
    ASSERT_EQ(hash, *hashes[i]);
    const Status replayed = replay(order, outcomes[i].records, flights[i].setup.segment_count, 1);
    ASSERT_TRUE(replayed.has_value()) << replayed.error().message;
  }
}

TEST(BitsTest, OneHashPerScheduleAndType) {
  const uint64_t runs = support::is_long() ? 1000 : 10;
  for (const NamedSchedule& named : all_schedules()) {
    SCOPED_TRACE(named.name);
    std::array<std::optional<uint64_t>, kAllElementTypes.size()> hashes;
    for (uint64_t seed = 1; seed <= runs; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      run_once(named, seed, hashes);
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

// Segments of 64 KiB and more, which several sockets share; and smaller ones.
TEST(BitsTest, OneHashWhereSeveralSocketsShareASegment) {
  constexpr int64_t kCount = 4 * 40'003;
  std::array<std::optional<uint64_t>, kAllElementTypes.size()> hashes;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_once(all_schedules()[0], seed, hashes, kCount);
  }
}

// The hash sees what it is there to see: another schedule rounds otherwise.
TEST(BitsTest, AnotherScheduleHasAnotherHash) {
  const std::vector<NamedSchedule> all = all_schedules();
  std::array<std::optional<uint64_t>, kAllElementTypes.size()> ring, halving;
  run_once(all[0], 1, ring);
  run_once(all[1], 1, halving);
  for (std::size_t i = 0; i < kAllElementTypes.size(); ++i) {
    EXPECT_EQ(ring[i] != halving[i], is_floating(kAllElementTypes[i]));
  }
}

}  // namespace
}  // namespace pleach
