#include "pleach/runtime/prepared_schedule.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

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
  std::vector<std::byte> bytes_ = std::vector<std::byte>(4096);
  std::shared_ptr<const PreparedSchedule> prepared_ =
      PreparedSchedule::prove(
          support::ring_schedule(CollectiveKind::kAllReduce, 2),
          {.rank = Rank{0}, .job_ranks = {Rank{0}, Rank{1}}, .place_bytes = 4096})
          .value();
};

TEST(PreparedScheduleTest, KeepsTheKindsThatWereUsedLast) {
  Kinds kinds;
  std::vector<Kinds::Program> programs;
  for (int64_t count = 0; count < 64; ++count) {
    programs.push_back(kinds.program(count));
  }
  EXPECT_EQ(kinds.program(0), programs[0]);
  kinds.program(64);  // in place of that of 1
  EXPECT_EQ(kinds.program(0), programs[0]);
  for (std::size_t count = 2; count < 64; ++count) {
    EXPECT_EQ(kinds.program(static_cast<int64_t>(count)), programs[count]) << count;
  }
  EXPECT_NE(kinds.program(1), programs[1]);
}

TEST(PreparedScheduleTest, KeepsTheKindsThatAreInUse) {
  Kinds kinds;
  const std::shared_ptr<CollectiveState> in_flight = kinds.plan(1);
  for (int64_t count = 2; count < 300; ++count) {
    kinds.plan(count);
  }
  EXPECT_EQ(kinds.program(1), in_flight->index);
}

}  // namespace
}  // namespace pleach
