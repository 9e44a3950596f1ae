#include "pleach/runtime/prepared_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "pleach/base/index.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

// What a request's operations run, of a schedule that many kinds of requests are made of.
class Kinds {
 public:
  using Program = std::shared_ptr<const ProgramIndex>;

  std::shared_ptr<CollectiveState> plan(int64_t count) {
    return prepared_->plan({.count = count, .input = bytes_.data(), .output = bytes_.data()})
        .value();
  }
  Program program(int64_t count) { return plan(count)->index; }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(std::size_t{1} << 16);
  std::shared_ptr<const PreparedSchedule> prepared_ =
      PreparedSchedule::prove(
          support::ring_schedule(CollectiveKind::kAllReduce, 2),
          {.rank = Rank{0}, .job_ranks = {Rank{0}, Rank{1}}, .place_bytes = 4096})
          .value();
};

constexpr auto kMost = static_cast<int64_t>(PreparedSchedule::kMostKinds);

TEST(PreparedScheduleTest, KeepsTheKindsThatWereUsedLast) {
  Kinds kinds;
  std::vector<Kinds::Program> programs;
  for (int64_t count = 0; count < kMost; ++count) {
    programs.push_back(kinds.program(count));
  }
  EXPECT_EQ(kinds.program(0), programs[0]);
  kinds.program(kMost);  // in place of that of 1
  EXPECT_EQ(kinds.program(0), programs[0]);
  for (int64_t count = 2; count < kMost; ++count) {
    EXPECT_EQ(kinds.program(count), programs[at(count)]) << count;
  }
  EXPECT_NE(kinds.program(1), programs[1]);
}

TEST(PreparedScheduleTest, KeepsTheKindsThatAreInUse) {
  Kinds kinds;
  const std::shared_ptr<CollectiveState> in_flight = kinds.plan(1);
  for (int64_t count = 2; count < 3 * kMost; ++count) {
    kinds.plan(count);
  }
  EXPECT_EQ(kinds.program(1), in_flight->index);
}

}  // namespace
}  // namespace pleach
