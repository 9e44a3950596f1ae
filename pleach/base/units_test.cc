#include "pleach/base/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

struct Case {
  std::string text;
  int64_t value = -1;      // when parsed
  std::string error = {};  // start of the message, when not
};

void expect_all(Result<int64_t> (*parse)(std::string_view), const std::vector<Case>& cases) {
  for (const auto& [text, value, error] : cases) {
    const Result<int64_t> parsed = parse(text);
    if (error.empty()) {
      ASSERT_TRUE(parsed) << parsed.error().message;
      EXPECT_EQ(*parsed, value) << text;
    } else {
      ASSERT_FALSE(parsed) << text << " parsed as " << *parsed;
      EXPECT_EQ(parsed.error().message.substr(0, error.size()), error) << text;
      EXPECT_EQ(parsed.error().message.find('\n'), std::string::npos);
    }
  }
}

TEST(Units, ParsesSizes) {
  expect_all(
      parse_size_bytes,
      {
          {"0", 0},
          {"4096", 4096},
          {"7B", 7},
          {"1KB", 1000},
          {"1kB", 1000},
          {"1KiB", 1024},
          {"64MiB", 67'108'864},
          {"64 MiB", 67'108'864},
          {"1GB", 1'000'000'000},
          {"1GiB", 1'073'741'824},
          {"2TiB", 2'199'023'255'552},
          {"1.5KiB", 1536},
          {"0.1GiB", 107'374'182},
          {"100000000000000000", 100'000'000'000'000'000},
          {"9999999999999999999", -1, "'9999999999999999999' is not a size: more than 18 digits"},
          {"", -1, "'' is not a size: expected a number with a unit"},
          {"MiB", -1, "'MiB' is not a size: expected a number"},
          {"-1MiB", -1, "'-1MiB' is not a size"},
          {"1.MiB", -1, "'1.MiB' is not a size"},
          {"1.2.3MiB", -1, "'1.2.3MiB' is not a size: unknown unit '.3MiB'"},
          {"1MIB", -1, "'1MIB' is not a size: unknown unit 'MIB'; did you mean '"},
          {"1e6", -1, "'1e6' is not a size: unknown unit 'e6'"},
          {"99999999TiB", -1, "'99999999TiB' is not a size: too large"},
          {"1\n", 1},
          {"1\x01", -1, "'1\\x01' is not a size"},
      });
}

TEST(Units, ParsesBandwidths) {
  expect_all(parse_bandwidth_bytes_per_s,
             {
                 {"16GB/s", 16'000'000'000},
                 {"100Gb/s", 12'500'000'000},
                 {"100Gbit/s", 12'500'000'000},
                 {"100Mbit/s", 12'500'000},
                 {"25GiB/s", 26'843'545'600},
                 {"0.5GB/s", 500'000'000},
                 {"1B/s", 1},
                 {"0GB/s", -1, "'0GB/s' is not a bandwidth: it must be at least 1 B/s"},
                 {"16", -1, "'16' is not a bandwidth: it has no unit"},
                 {"16GB", -1, "'16GB' is not a bandwidth: unknown unit 'GB'; did you mean 'GB/s'?"},
                 {"-16GB/s", -1, "'-16GB/s' is not a bandwidth"},
                 {"inf", -1, "'inf' is not a bandwidth"},
             });
}

TEST(Units, ParsesTimes) {
  expect_all(parse_time_ps, {
                                {"0", 0},
                                {"150ns", 150'000},
                                {"10us", 10'000'000},
                                {"2ms", 2'000'000'000},
                                {"1s", 1'000'000'000'000},
                                {"500ps", 500},
                                {"1.5ns", 1500},
                                {"1", -1, "'1' is not a time: it has no unit"},
                                {"1m", -1, "'1m' is not a time: unknown unit 'm'"},
                                {"-1ns", -1, "'-1ns' is not a time"},
                                {"99999999s", -1, "'99999999s' is not a time: too large"},
                            });
}

TEST(Units, PrintsThreeDigits) {
  const std::vector<std::pair<int64_t, std::string>> sizes = {
      {0, "0 B"},
      {100, "100 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.50 KiB"},
      {67'108'864, "64 MiB"},
      {1'048'575, "1.00 MiB"},
      {10'301, "10.1 KiB"},
      {-2048, "-2 KiB"},
      {std::numeric_limits<int64_t>::max(), "8 EiB"}};
  for (const auto& [size, text] : sizes) {
    EXPECT_EQ(format_size(size), text);
  }
  const std::vector<std::pair<int64_t, std::string>> times = {
      {0, "0 ps"},          {500, "500 ps"},        {12'345'678, "12.3 us"},
      {150'000, "150 ns"},  {999'600, "1.00 us"},   {1'000'000'000'000, "1.00 s"},
      {-1'500, "-1.50 ns"}, {9'996'000, "10.0 us"}, {99'960'000, "100 us"}};
  for (const auto& [time, text] : times) {
    EXPECT_EQ(format_time(time), text);
  }
  EXPECT_EQ(format_bandwidth(16e9), "16.0 GB/s");
  EXPECT_EQ(format_bandwidth(999.6e9), "1.00 TB/s");
  EXPECT_EQ(format_bandwidth(1.5), "1.50 B/s");
}

TEST(Units, PrintedSizesParseToTheSameWithinTheirDigits) {
  constexpr uint64_t kSeed = 11;
  Rng rng(kSeed);
  for (int trial = 0; trial < 2000; ++trial) {
    const auto size = static_cast<int64_t>(rng.next() >> (24 + rng.below(40)));
    const std::string text = format_size(size);
    const Result<int64_t> parsed = parse_size_bytes(text);
    ASSERT_TRUE(parsed) << text << ", seed " << kSeed;
    EXPECT_NEAR(static_cast<double>(*parsed), static_cast<double>(size),
                0.006 * static_cast<double>(size))
        << text;
  }
}

TEST(Units, TransmissionRoundsUpAndSaturates) {
  EXPECT_EQ(transmit_time_ps(0, 1), 0);
  EXPECT_EQ(transmit_time_ps(16, 16'000'000'000), 1000);
  EXPECT_EQ(transmit_time_ps(1, 3'000'000'000'000), 1);
  EXPECT_EQ(transmit_time_ps(int64_t{1} << 40, 1), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace pleach
