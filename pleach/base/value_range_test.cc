#include "pleach/base/value_range.h"

#include <gtest/gtest.h>

#include <string>

#include "pleach/base/units.h"

namespace pleach {
namespace {

constexpr ValueRangeForm kSizes = {
    .parse_value = parse_size_bytes, .may_be_single = true, .whole_factor = true};
constexpr ValueRangeForm kBandwidths = {.parse_value = parse_bandwidth_bytes_per_s,
                                        .ends_at_last = true};

TEST(ValueRange, GrowsByTheFactor) {
  const struct {
    ValueRangeForm form;
    const char* text;
    std::vector<int64_t> values;
  } cases[] = {
      {kSizes, "4096", {4096}},
      {kSizes, "1KiB:4KiB", {1024, 2048, 4096}},
      {kSizes, "1KiB:100KiB:4", {1024, 4096, 16384, 65536}},
      {kSizes, "3:3:1000000000", {3}},
      {kSizes, "8388607TiB:8388607TiB", {9223370937343148032}},
      {kSizes, "2097152TiB:8388607TiB", {2305843009213693952, 4611686018427387904}},
      {kBandwidths, "1B/s:10B/s:3", {1, 3, 9, 10}},
      {kBandwidths, "2B/s:8B/s", {2, 4, 8}},
      {kBandwidths, "4B/s:13B/s:1.5", {4, 6, 9, 13}},
      {kBandwidths, "7B/s:7B/s:1.01", {7}},
      {kBandwidths, "1kB/s:1011B/s:1.01", {1000, 1010, 1011}},
  };
  for (const auto& example : cases) {
    const auto values = parse_value_range(example.text, example.form);
    ASSERT_TRUE(values.has_value()) << example.text << ": " << values.error().message;
    EXPECT_EQ(*values, example.values) << example.text;
  }
}

TEST(ValueRange, SaysWhatIsWrong) {
  const struct {
    ValueRangeForm form;
    const char* text;
    const char* error;
  } cases[] = {
      {kSizes, "1:2:3:4", "'1:2:3:4' is not FROM:TO:FACTOR"},
      {kSizes, "4:1", "'4:1' goes down"},
      {kSizes, "0:8", "'0:8' goes down"},
      {kSizes, "0", "'0' goes down"},
      {{.parse_value = parse_size_bytes, .order = ": sizes ascend"}, "4:1", "'4:1': sizes ascend"},
      {kSizes, "1:8:1", "factor '1' is outside 2 to 1073741824"},
      {kSizes, "1:8:2.5", "factor '2.5' is not a whole number"},
      {kSizes, "1:8:", "factor '' is not a whole number"},
      {kSizes, "1:x", "'x' is not a size: expected a number with a unit, as 64MiB, 1GB or 4096"},
      {kBandwidths, "1GB/s", "'1GB/s' is not FROM:TO:FACTOR"},
      {kBandwidths, "1GB/s:2GB/s:2:2", "'1GB/s:2GB/s:2:2' is not FROM:TO:FACTOR"},
      {kBandwidths, "2GB/s:1GB/s", "'2GB/s:1GB/s' goes down"},
      {kBandwidths, "1GB/s:2GB/s:1", "factor '1' is no number from 1.01 on"},
      {kBandwidths, "1GB/s:2GB/s:1e7", "factor '1e7' is no number from 1.01 on"},
      {kBandwidths, "1GB/s:2GB/s:nan", "factor 'nan' is no number from 1.01 on"},
      {kBandwidths, "1GB/s:2GB/s:", "factor '' is no number from 1.01 on"},
      {kBandwidths, "1GB/s:2GB/s:2x", "factor '2x' is no number from 1.01 on"},
      {kBandwidths, "0B/s:2GB/s", "'0B/s' is not a bandwidth: it must be at least 1 B/s"},
  };
  for (const auto& example : cases) {
    const auto values = parse_value_range(example.text, example.form);
    ASSERT_FALSE(values.has_value()) << example.text;
    EXPECT_EQ(values.error().message, example.error);
  }
}

}  // namespace
}  // namespace pleach
