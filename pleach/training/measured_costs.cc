#include "pleach/training/measured_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/workload/json_text.h"

namespace pleach {
namespace {

using Json = nlohmann::json;
using Pointer = Json::json_pointer;

constexpr std::string_view kFormatName = "pleach-costs";
constexpr int64_t kFormatVersion = 1;
constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr int64_t kMostRanks = int64_t{1} << 20;
constexpr double kMostSeconds = 1e6;
constexpr int64_t kLongestFile = int64_t{1} << 26;

// The point of twice the last size (at most kMostBytes), which holds the slope of what is beyond.
CostCurve::Sample beyond(const std::vector<CostCurve::Sample>& samples) {
  const CostCurve::Sample& first = samples.front();
  const CostCurve::Sample& last = samples.back();
  const auto slope = [](const CostCurve::Sample& from, const CostCurve::Sample& to) {
    return static_cast<double>(to.time_ps - from.time_ps) /
           static_cast<double>(to.size_bytes - from.size_bytes);
  };
  const double steepest =
      samples.size() == 1 ? slope({}, last)
                          : std::max(slope(samples[samples.size() - 2], last), slope(first, last));
  const int64_t size_bytes = std::min(last.size_bytes, kMostBytes) + last.size_bytes;
  const double time_ps = static_cast<double>(last.time_ps) +
                         steepest * static_cast<double>(size_bytes - last.size_bytes);
  return {size_bytes, std::llround(std::min(time_ps, static_cast<double>(kLongestPs)))};
}

CostCurve curve_of(std::vector<CostCurve::Sample> samples) {
  const CostCurve rising = CostCurve::from_samples(std::move(samples));
  std::vector<CostCurve::Sample> extended = rising.samples();
  extended.push_back(beyond(rising.samples()));
  return CostCurve::from_samples(std::move(extended));
}

// points[3].time_s
std::string key_text(Pointer pointer) {
  std::string key;
  while (!pointer.empty()) {
    const std::string& last = pointer.back();
    const bool is_index = last.find_first_not_of("0123456789") == std::string::npos;
    key = (is_index ? "[" + last + "]" : "." + last) + key;
    pointer.pop_back();
  }
  return key.empty() ? key : key.substr(1);
}

// A text of JSON, for errors that name the place in it.
struct Source {
  std::string_view text;
  std::string_view where;

  Error error(const Pointer& pointer, std::string_view what) const {
    const std::string key = key_text(pointer);
    return invalid(fmt::format("{}: {}{}", json_place(text, where, pointer),
                               key.empty() ? "" : key + ": ", what));
  }
};

Status check_keys(const Source& source, const Json& object, const Pointer& pointer,
                  std::span<const std::string> known) {
  if (!object.is_object()) {
    return source.error(pointer, fmt::format("{} is no object", shown(object)));
  }
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end()) {
      return source.error(pointer, unknown_name("key", key, known).message);
    }
  }
  for (const std::string& key : known) {
    if (!object.contains(key)) {
      return source.error(pointer, fmt::format("key '{}' is missing", key));
    }
  }
  return ok();
}

Result<int64_t> whole_number(const Source& source, const Json& object, const Pointer& pointer,
                             const char* key, int64_t most) {
  const Json& value = object[key];
  const bool is_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(most);
  if (!value.is_number_integer() || is_large || value.get<int64_t>() < 1) {
    return source.error(pointer / key,
                        fmt::format("{} is no whole number from 1 to {}", shown(value), most));
  }
  return value.get<int64_t>();
}

Result<MeasuredCosts::Point> read_point(const Source& source, const Json& entry,
                                        const Pointer& pointer) {
  static const std::array<std::string, 3> kKeys = {"collective", "size_bytes", "time_s"};
  PLEACH_TRY(check_keys(source, entry, pointer, kKeys));
  const Json& name = entry["collective"];
  if (!name.is_string()) {
    return source.error(pointer / "collective", fmt::format("{} is no text", shown(name)));
  }
  MeasuredCosts::Point point;
  const auto kind = parse_collective(name.get<std::string>());
  if (!kind) {
    return source.error(pointer / "collective", kind.error().message);
  }
  point.kind = *kind;
  PLEACH_SET(point.size_bytes, whole_number(source, entry, pointer, "size_bytes", kMostBytes));
  const Json& time = entry["time_s"];
  point.time_s = time.is_number() ? time.get<double>() : -1;
  if (!(point.time_s >= 0 && point.time_s <= kMostSeconds)) {
    return source.error(pointer / "time_s",
                        fmt::format("{} is no time from 0 to {:.0f} s", shown(time), kMostSeconds));
  }
  return point;
}

// What a family's groups pay.
class FamilyCosts : public CostModel {
 public:
  FamilyCosts(const MeasuredCosts& costs, bool is_alone) : costs_(costs), is_alone_(is_alone) {}
  bool has(CollectiveKind kind) const override { return is_alone_ || costs_.has(kind); }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return is_alone_ ? 0 : costs_.time_ps(kind, size_bytes);
  }
  std::vector<int64_t> breakpoints(CollectiveKind kind) const override {
    return is_alone_ ? std::vector<int64_t>{} : costs_.breakpoints(kind);
  }

 private:
  const MeasuredCosts& costs_;
  const bool is_alone_;
};

bool is_alone(const Family& family) {
  return std::ranges::all_of(family.groups, [](const auto& group) { return group.size() <= 1; });
}

class MeasuredTraceCosts : public TraceCosts {
 public:
  MeasuredTraceCosts(const Trace& trace, const MeasuredCosts& costs) {
    for (const Family& family : trace.families) {
      families_.emplace_back(costs, is_alone(family));
    }
  }
  Result<int64_t> collective_ps(const GroupCollective& what) override {
    const FamilyCosts& costs = families_[at(what.family)];
    if (!costs.has(what.kind)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("the measured costs have no {}", to_text(what.kind))};
    }
    return what.size_bytes == 0 ? 0 : costs.time_ps(what.kind, what.size_bytes);
  }
  Result<int64_t> send_ps(const WorkerSend& /*what*/) override {
    return Error{ErrorCode::kUnsupported, "the measured costs have no messages between stages"};
  }
  Result<const CostModel*> family_costs(int32_t family,
                                        std::span<const CollectiveKind> /*kinds*/) override {
    return static_cast<const CostModel*>(&families_[at(family)]);
  }

 private:
  std::vector<FamilyCosts> families_;
};

}  // namespace

Result<MeasuredCosts> MeasuredCosts::from_points(int32_t rank_count, std::vector<Point> points) {
  if (rank_count < 1 || rank_count > kMostRanks) {
    return invalid(fmt::format("{} ranks are not within 1 and {}", rank_count, kMostRanks));
  }
  if (points.empty()) {
    return invalid("points: there are none");
  }
  std::array<std::map<int64_t, int64_t>, kAllCollectives.size()> times_ps;  // by size
  for (std::size_t index = 0; index < points.size(); ++index) {
    const Point& point = points[index];
    if (point.size_bytes < 1 || point.size_bytes > kMostBytes ||
        !(point.time_s >= 0 && point.time_s <= kMostSeconds)) {
      return invalid(
          fmt::format("points[{}]: {} bytes in {} s", index, point.size_bytes, point.time_s));
    }
    const int64_t time_ps = std::llround(point.time_s * static_cast<double>(kPicosecondsPerSecond));
    if (!times_ps[at(point.kind)].emplace(point.size_bytes, time_ps).second) {
      return invalid(fmt::format("points[{}]: {} of {} bytes is there twice", index,
                                 to_text(point.kind), point.size_bytes));
    }
  }
  MeasuredCosts costs;
  costs.rank_count_ = rank_count;
  for (const CollectiveKind kind : kAllCollectives) {
    std::vector<CostCurve::Sample> samples;
    for (const auto& [size_bytes, time_ps] : times_ps[at(kind)]) {
      samples.push_back({size_bytes, time_ps});
    }
    if (!samples.empty()) {
      costs.curves_.set(kind, curve_of(std::move(samples)));
    }
  }
  return costs;
}

Result<MeasuredCosts> MeasuredCosts::parse(std::string_view text, std::string_view where) {
  static const std::array<std::string, 4> kKeys = {"format", "version", "rank_count", "points"};
  PLEACH_ASSIGN(json, parse_json(text, where));
  const Source source{text, where};
  if (!json.is_object() || json.value("format", Json()) != kFormatName) {
    return invalid(std::string(where),
                   fmt::format("is no file of costs: its format is not '{}'", kFormatName));
  }
  PLEACH_TRY(check_keys(source, json, Pointer(), kKeys));
  if (json["version"] != kFormatVersion) {
    return source.error(Pointer("/version"),
                        fmt::format("{}, and {} is known", shown(json["version"]), kFormatVersion));
  }
  PLEACH_ASSIGN(rank_count, whole_number(source, json, Pointer(), "rank_count", kMostRanks));
  const Json& entries = json["points"];
  if (!entries.is_array()) {
    return source.error(Pointer("/points"), fmt::format("{} is no array", shown(entries)));
  }
  std::vector<Point> points;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    PLEACH_ASSIGN(point, read_point(source, entries[index], Pointer("/points") / index));
    points.push_back(point);
  }
  auto costs = from_points(static_cast<int32_t>(rank_count), std::move(points));
  if (!costs) {
    return prefixed(std::string(where), costs.error());
  }
  return costs;
}

Result<MeasuredCosts> MeasuredCosts::read(const std::string& path) {
  PLEACH_ASSIGN(text, read_text_file(path, kLongestFile));
  return parse(text, path);
}

Status check_measured(const Trace& trace, const MeasuredCosts& costs) {
  for (const Family& family : trace.families) {
    for (const auto& group : family.groups) {
      if (group.size() > 1 && count_of(group) != costs.rank_count()) {
        return invalid(
            fmt::format("costs were measured on {} ranks, and family {} has groups of {}",
                        costs.rank_count(), family.name, group.size()));
      }
    }
  }
  for (const WorkerTrace& worker : trace.workers) {
    if (std::ranges::count(worker.nodes, TraceNodeKind::kSend, &TraceNode::kind) > 0) {
      return invalid("measured costs are of collectives, and stages of a pipeline send messages");
    }
  }
  return ok();
}

std::unique_ptr<TraceCosts> measured_costs(const Trace& trace, const MeasuredCosts& costs) {
  return std::make_unique<MeasuredTraceCosts>(trace, costs);
}

}  // namespace pleach
