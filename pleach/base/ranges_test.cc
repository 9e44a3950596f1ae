#include "pleach/base/ranges.h"

#include <gtest/gtest.h>

#include <utility>

namespace pleach {
namespace {

TEST(Ranges, AreParsedAndWritten) {
  EXPECT_EQ(parse_ranges("5,0-2,4", "rank", 5).value(), (std::vector<int32_t>{5, 0, 1, 2, 4}));
  for (const auto& [text, message] : {std::pair("0,6", "rank '6' is outside 0 to 5"),
                                      std::pair("3-2", "rank '2' is outside 3 to 5"),
                                      std::pair("0-2,1", "rank 1 is twice in '0-2,1'"),
                                      std::pair("1-", "rank '' is not a whole number")}) {
    EXPECT_EQ(parse_ranges(text, "rank", 5).error().message, message);
  }
  EXPECT_EQ(ranges_text({}), "");
  const std::vector<int32_t> numbers = {0, 2, 3, 4, 6, 7};
  EXPECT_EQ(ranges_text(numbers), "0,2-4,6-7");
}

}  // namespace
}  // namespace pleach
