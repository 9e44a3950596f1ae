#include "pleach/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "pleach/base/text.h"

namespace pleach {
namespace {

struct Unit {
  std::string_view name;
  int64_t numerator = 1;    // base units per unit = numerator / denominator
  int64_t denominator = 1;  // 8 for bits
};

constexpr int64_t kKilo = 1000;
constexpr int64_t kMega = kKilo * 1000;
constexpr int64_t kGiga = kMega * 1000;
constexpr int64_t kTera = kGiga * 1000;
constexpr int64_t kKibi = 1024;
constexpr int64_t kMebi = kKibi * 1024;
constexpr int64_t kGibi = kMebi * 1024;
constexpr int64_t kTebi = kGibi * 1024;

// A letter alone is binary, as nccl-tests and dd read it.
constexpr std::array<Unit, 17> kSizeUnits = {{{"B"},
                                              {"k", kKibi},
                                              {"K", kKibi},
                                              {"m", kMebi},
                                              {"M", kMebi},
                                              {"g", kGibi},
                                              {"G", kGibi},
                                              {"KB", kKilo},
                                              {"kB", kKilo},
                                              {"MB", kMega},
                                              {"GB", kGiga},
                                              {"TB", kTera},
                                              {"KiB", kKibi},
                                              {"MiB", kMebi},
                                              {"GiB", kGibi},
                                              {"TiB", kTebi},
                                              {""}}};
constexpr std::array<Unit, 20> kBandwidthUnits = {{
    {"B/s"},
    {"KB/s", kKilo},
    {"kB/s", kKilo},
    {"MB/s", kMega},
    {"GB/s", kGiga},
    {"TB/s", kTera},
    {"KiB/s", kKibi},
    {"MiB/s", kMebi},
    {"GiB/s", kGibi},
    {"TiB/s", kTebi},
    {"Kb/s", kKilo, 8},
    {"kb/s", kKilo, 8},
    {"Mb/s", kMega, 8},
    {"Gb/s", kGiga, 8},
    {"Tb/s", kTera, 8},
    {"Kbit/s", kKilo, 8},
    {"kbit/s", kKilo, 8},
    {"Mbit/s", kMega, 8},
    {"Gbit/s", kGiga, 8},
    {"Tbit/s", kTera, 8},
}};
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"ps"}, {"ns", kKilo}, {"us", kMega}, {"ms", kGiga}, {"s", kTera}}};

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// A decimal number as mantissa / scale, exact; the scale is a power of ten.
struct Decimal {
  int64_t mantissa = 0;
  int64_t scale = 1;
  std::size_t length = 0;  // letters it took; 0: no number
  bool too_long = false;
};

// Reads up to 18 digits.
Decimal read_decimal(std::string_view text) {
  Decimal number;
  bool point = false;
  bool digits = false;
  std::size_t at = 0;
  for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !point)); ++at) {
    if (text[at] == '.') {
      point = true;
      continue;
    }
    digits = true;
    if (number.mantissa >= kTera * 100'000 || number.scale >= kTera * 100'000) {
      return {0, 1, 0, true};
    }
    number.mantissa = number.mantissa * 10 + (text[at] - '0');
    number.scale *= point ? 10 : 1;
  }
  number.length = digits && text[at - 1] != '.' ? at : 0;
  return number;
}

// `mantissa / scale × unit`, rounded to the nearest; the error names the text and what it should
// be.
Result<int64_t> parse_quantity(std::string_view text, std::span<const Unit> units,
                               std::string_view what, std::string_view example) {
  const auto error = [&](std::string_view why) {
    return invalid(fmt::format("{} is not a {}: {}", quoted(text), what, why));
  };
  const Decimal number = read_decimal(text);
  if (number.too_long) {
    return error("more than 18 digits");
  }
  if (number.length == 0) {
    return error(fmt::format("expected a number with a unit, as {}", example));
  }
  const std::string_view rest = trim(text.substr(number.length));
  for (const Unit& unit : units) {
    if (rest != unit.name) {
      continue;
    }
    const __int128 divisor = static_cast<__int128>(number.scale) * unit.denominator;
    const __int128 product = static_cast<__int128>(number.mantissa) * unit.numerator;
    const __int128 value = (product + divisor / 2) / divisor;
    if (value > std::numeric_limits<int64_t>::max()) {
      return error("too large");
    }
    return static_cast<int64_t>(value);
  }
  std::vector<std::string> known;
  for (const Unit& unit : units) {
    if (!unit.name.empty()) {
      known.emplace_back(unit.name);
    }
  }
  if (rest.empty()) {
    return error(fmt::format("it has no unit, as {}", example));
  }
  return error(unknown_name("unit", rest, known).message);
}

// Three significant digits, never in exponent form.
std::string three_digits(double value) {
  if (value < 9.995) {
    return fmt::format("{:.2f}", value);
  }
  return value < 99.95 ? fmt::format("{:.1f}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

Result<int64_t> parse_size_bytes(std::string_view text) {
  return parse_quantity(text, kSizeUnits, "size", "64MiB, 1GB or 4096");
}

Result<int64_t> parse_bandwidth_bytes_per_s(std::string_view text) {
  PLEACH_ASSIGN(bandwidth, parse_quantity(text, kBandwidthUnits, "bandwidth", "16GB/s or 100Gb/s"));
  if (bandwidth <= 0) {
    return invalid(fmt::format("{} is not a bandwidth: it must be at least 1 B/s", quoted(text)));
  }
  return bandwidth;
}

Result<int64_t> parse_time_ps(std::string_view text) {
  if (text == "0") {
    return int64_t{0};
  }
  return parse_quantity(text, kTimeUnits, "time", "150ns or 10us");
}

std::string format_size(int64_t size_bytes) {
  constexpr std::array<std::string_view, 7> kNames = {"B",   "KiB", "MiB", "GiB",
                                                      "TiB", "PiB", "EiB"};
  const std::string sign = size_bytes < 0 ? "-" : "";
  const double size = std::abs(static_cast<double>(size_bytes));
  std::size_t unit = 0;
  double divisor = 1;
  while (unit + 1 < kNames.size() && size / divisor >= 1023.5) {
    divisor *= 1024;
    ++unit;
  }
  const double value = size / divisor;
  const bool whole = std::floor(value) == value;
  return sign + (whole ? fmt::format("{:.0f}", value) : three_digits(value)) + " " +
         std::string(kNames[unit]);
}

std::string format_time(int64_t time_ps) {
  constexpr std::array<std::string_view, 5> kNames = {"ps", "ns", "us", "ms", "s"};
  const std::string sign = time_ps < 0 ? "-" : "";
  const double time = std::abs(static_cast<double>(time_ps));
  std::size_t unit = 0;
  double divisor = 1;
  while (unit + 1 < kNames.size() && time / divisor >= 999.5) {
    divisor *= 1000;
    ++unit;
  }
  return sign + (unit == 0 ? fmt::format("{:.0f}", time) : three_digits(time / divisor)) + " " +
         std::string(kNames[unit]);
}

std::string format_bandwidth(double bytes_per_s) {
  constexpr std::array<std::string_view, 5> kNames = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t unit = 0;
  double divisor = 1;
  while (unit + 1 < kNames.size() && std::abs(bytes_per_s) / divisor >= 999.5) {
    divisor *= 1000;
    ++unit;
  }
  const std::string sign = bytes_per_s < 0 ? "-" : "";
  return sign + three_digits(std::abs(bytes_per_s) / divisor) + " " + std::string(kNames[unit]);
}

int64_t transmit_time_ps(int64_t size_bytes, int64_t bandwidth_bytes_per_s) {
  PLEACH_CHECK(size_bytes >= 0 && bandwidth_bytes_per_s > 0, "transmission of nothing sensible");
  const __int128 product = static_cast<__int128>(size_bytes) * kPicosecondsPerSecond;
  const __int128 time = (product + bandwidth_bytes_per_s - 1) / bandwidth_bytes_per_s;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return time > kMost ? kMost : static_cast<int64_t>(time);
}

}  // namespace pleach
