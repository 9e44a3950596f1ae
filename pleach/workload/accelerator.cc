// The named accelerators, and what they are called with.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "pleach/base/options.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/workload/workload.h"

namespace pleach {
namespace {

using Kind = OptionDescriptor::Kind;

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr int64_t kGiB = int64_t{1} << 30;
// Assumptions, not figures of the sources: what large products attain. For 32 bits the share that
// brings ResNet-50 and BERT-Base near published times of the RTX 2080 Ti; docs/workloads.md.
constexpr double kTensorEfficiency = 0.5;
constexpr double kVectorEfficiency = 0.7;
constexpr int64_t kOverheadPs = 5'000'000;

constexpr std::string_view kGeneric = "roofline";

Roofline roofline(double tera_operations, double giga_bytes, double efficiency) {
  return {tera_operations * kTera, giga_bytes * kGiga, efficiency, kOverheadPs};
}

Error in_option(const std::string& accelerator, std::string_view key, std::string_view what) {
  return invalid(fmt::format("accelerator {}: option '{}': {}", accelerator, key, what));
}

// A number in (0, most], such as 312e12.
Result<double> parse_number(std::string_view text, double most) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (text.empty() || stop != end || code != std::errc()) {
    return invalid(fmt::format("{} is not a number", quoted(text)));
  }
  if (!(value > 0) || value > most) {
    return invalid(fmt::format("{} is not above 0 and up to {}", quoted(text), most));
  }
  return value;
}

// "1GHz", "940MHz", "1000000000".
Result<double> parse_clock_hz(std::string_view text) {
  constexpr double kMost = 1e15;
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits = {
      {{"GHz", 1e9}, {"MHz", 1e6}, {"kHz", 1e3}, {"Hz", 1}}};
  for (const auto& [unit, factor] : kUnits) {
    if (text.ends_with(unit)) {
      PLEACH_ASSIGN(number,
                    parse_number(text.substr(0, text.size() - unit.size()), kMost / factor));
      return number * factor;
    }
  }
  return parse_number(text, kMost);
}

// Text options whose empty default leaves the accelerator's own value.
std::vector<OptionDescriptor> options_of_rule(const Accelerator& accelerator) {
  if (std::holds_alternative<SystolicArray>(accelerator.rule)) {
    constexpr int64_t kMost = 1 << 20;
    return {{"rows", Kind::kInteger, "32", "rows of an array", {}, 1, kMost},
            {"columns", Kind::kInteger, "32", "columns of an array", {}, 1, kMost},
            {"arrays", Kind::kInteger, "16", "arrays, each with samples of its own", {}, 1, kMost},
            {"clock", Kind::kText, "1GHz", "frequency"}};
  }
  return {{"operations", Kind::kText, "", "peak per second, multiply and add are two"},
          {"memory", Kind::kText, "", "bandwidth"},
          {"efficiency", Kind::kText, "", "share of the peak that products attain"},
          {"overhead", Kind::kText, "", "time that each layer takes besides"},
          {"capacity", Kind::kText, "", "bytes of its memory"}};
}

Result<SystolicArray> changed(const SystolicArray&, const Options& options,
                              const std::string& name) {
  const Result<double> clock = parse_clock_hz(options.text("clock"));
  if (!clock) {
    return in_option(name, "clock", clock.error().message);
  }
  return SystolicArray{static_cast<int32_t>(options.integer("rows")),
                       static_cast<int32_t>(options.integer("columns")),
                       static_cast<int32_t>(options.integer("arrays")), *clock};
}

Result<Roofline> changed(Roofline roofline, const Options& options, const std::string& name) {
  constexpr double kMostOperations = 1e21;
  const auto set_number = [&](const std::string& key, double most, double& value) -> Status {
    if (options.text(key).empty()) {
      return ok();
    }
    const Result<double> number = parse_number(options.text(key), most);
    if (!number) {
      return in_option(name, key, number.error().message);
    }
    value = *number;
    return ok();
  };
  PLEACH_TRY(set_number("operations", kMostOperations, roofline.operations_per_s));
  PLEACH_TRY(set_number("efficiency", 1, roofline.efficiency));
  if (const std::string& text = options.text("memory"); !text.empty()) {
    const Result<int64_t> bandwidth = parse_bandwidth_bytes_per_s(text);
    if (!bandwidth) {
      return in_option(name, "memory", bandwidth.error().message);
    }
    roofline.memory_bytes_per_s = static_cast<double>(*bandwidth);
  }
  if (const std::string& text = options.text("overhead"); !text.empty()) {
    const Result<int64_t> overhead = parse_time_ps(text);
    if (!overhead) {
      return in_option(name, "overhead", overhead.error().message);
    }
    roofline.overhead_ps = *overhead;
  }
  if (roofline.operations_per_s <= 0 || roofline.memory_bytes_per_s <= 0) {
    return invalid(
        fmt::format("accelerator {}: options 'operations' and 'memory' are required, as "
                    "roofline,operations=312e12,memory=2TB/s",
                    name));
  }
  return roofline;
}

Result<Accelerator> find_accelerator(const std::string& name) {
  if (name == kGeneric) {
    return Accelerator{name, "a roofline of your own", "options", Roofline{}, 0};
  }
  const auto found = accelerators().find(name);
  if (!found) {
    std::vector<std::string> known = accelerators().names();
    known.emplace_back(kGeneric);
    return unknown_name("accelerator", name, known);
  }
  return **found;
}

}  // namespace

extern const Accelerator kA100 = {"a100", "NVIDIA A100 80 GB SXM, 16-bit tensor cores",
                                  "NVIDIA A100 data sheet, 2021: 312 TFLOPS dense, 2039 GB/s",
                                  roofline(312, 2039, kTensorEfficiency), 80 * kGiB};
extern const Accelerator kH100 = {"h100", "NVIDIA H100 SXM, 16-bit tensor cores",
                                  "NVIDIA H100 data sheet, 2022: 989 TFLOPS dense, 3.35 TB/s",
                                  roofline(989, 3350, kTensorEfficiency), 80 * kGiB};
extern const Accelerator kV100 = {"v100", "NVIDIA V100 SXM2, 16-bit tensor cores",
                                  "NVIDIA V100 data sheet, 2018: 125 TFLOPS, 900 GB/s",
                                  roofline(125, 900, kTensorEfficiency), 32 * kGiB};
extern const Accelerator kRtx2080ti = {
    "rtx2080ti", "NVIDIA GeForce RTX 2080 Ti, 32-bit",
    "NVIDIA Turing architecture white paper, 2018, table 1: 13.4 TFLOPS, 616 GB/s",
    roofline(13.4, 616, kVectorEfficiency), 11 * kGiB};
extern const Accelerator kTpuV4 = {"tpu_v4", "Google TPU v4, bfloat16",
                                   "Jouppi et al., ISCA 2023, table 4: 275 TFLOPS, 1200 GB/s",
                                   roofline(275, 1200, kTensorEfficiency), 32 * kGiB};
extern const Accelerator kSystolic = {
    "systolic", "16 output-stationary arrays of 32x32 at 1 GHz",
    "Huang et al., MultiTree, ISCA 2021, sec. V; Samajdar et al., SCALE-Sim, sec. III",
    SystolicArray{}, 0};

Result<Accelerator> parse_accelerator(std::string_view spec) {
  PLEACH_ASSIGN(parsed, parse_spec(spec));
  PLEACH_ASSIGN(accelerator, find_accelerator(parsed.name));
  PLEACH_ASSIGN(options,
                options_of(parsed, "accelerator " + parsed.name, options_of_rule(accelerator)));
  const auto change = [&](const auto& rule) -> Status {
    PLEACH_SET(accelerator.rule, changed(rule, options, parsed.name));
    return ok();
  };
  const auto rule = accelerator.rule;
  PLEACH_TRY(std::visit(change, rule));
  if (std::holds_alternative<Roofline>(rule) && !options.text("capacity").empty()) {
    const Result<int64_t> capacity = parse_size_bytes(options.text("capacity"));
    if (!capacity) {
      return in_option(parsed.name, "capacity", capacity.error().message);
    }
    accelerator.capacity_bytes = *capacity;
  }
  if (const std::string canonical = options.canonical(); !canonical.empty()) {
    accelerator.name += "," + canonical;
  }
  return accelerator;
}

}  // namespace pleach
