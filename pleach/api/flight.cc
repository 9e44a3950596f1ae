#include "pleach/api/flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "pleach/api/flight_messages.h"
#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/flight_recorder.h"
#include "pleach/runtime/request_fingerprint.h"

namespace pleach {
namespace {

constexpr int64_t kMostBytes = 64 << 20;
constexpr std::string_view kGroup = "group-";
constexpr std::size_t kMostMismatches = 20;
constexpr std::size_t kMostFiles = 1 << 20;

// The rank in "rank-R.json".
std::optional<int32_t> rank_of(const std::string& name) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".json";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) ||
      name.size() <= kBegin.size() + kEnd.size()) {
    return std::nullopt;
  }
  const std::string_view digits =
      std::string_view(name).substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
  const Result<int32_t> rank = parse_count(digits, "rank", 0, INT32_MAX);
  return rank && std::to_string(*rank) == digits ? std::optional(*rank) : std::nullopt;
}

class Inspection {
 public:
  explicit Inspection(std::string folder) { report_.folder = std::move(folder); }
  // With the groups, or without: those of groups have none.
  Result<FlightReport> run_with_groups();
  Result<FlightReport> run();

 private:
  Status read_folder();
  Result<FlightReport> compare_all();
  Result<FlightFile> read(const std::string& name) const;
  void keep_one_job();
  void collect_failures();
  void find_places();
  void compare_operations();
  // One operation of a communicator, on the ranks that tell of it.
  using Telling = std::vector<std::pair<int32_t, const FlightFile::Operation*>>;
  void compare(const std::string& communicator, const Telling& telling);
  void note_lateness(const Telling& telling);

  FlightReport report_;
  std::vector<std::string> groups_;                      // their folders
  std::map<int32_t, FlightFile> files_;                  // by rank
  std::map<std::string, FlightFile::Channel> channels_;  // by number
  std::map<int32_t, FlightReport::Lateness> lateness_;   // by rank
};

Status Inspection::read_folder() {
  std::error_code error;
  std::set<std::string> names;
  for (std::filesystem::directory_iterator entry(report_.folder, error), end;
       !error && entry != end && names.size() < kMostFiles; entry.increment(error)) {
    names.insert(entry->path().filename().string());
  }
  if (error) {
    return Error{ErrorCode::kIo, fmt::format("cannot read {}: {}", pleach::quoted(report_.folder),
                                             error.message())};
  }
  for (const std::string& name : names) {
    if (name.starts_with(kGroup) &&
        std::filesystem::is_directory(report_.folder + "/" + name, error)) {
      groups_.push_back(report_.folder + "/" + name);
      continue;
    }
    Result<FlightFile> file = read(name);
    if (file) {
      files_.emplace(file->rank, std::move(*file));
    } else {
      const std::string shown = one_line(name);
      const std::string& why = file.error().message;
      report_.problems.push_back(
          {shown, why.starts_with(shown + ": ") ? why.substr(shown.size() + 2) : why});
    }
  }
  return ok();
}

Result<FlightFile> Inspection::read(const std::string& name) const {
  const std::optional<int32_t> rank = rank_of(name);
  if (!rank) {
    return invalid("it is no rank's flight file");
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(report_.folder + "/" + name, error)) {
    return invalid("it is no regular file");  // a pipe might never be written to
  }
  PLEACH_ASSIGN(text, read_file(report_.folder + "/" + name, kMostBytes));
  PLEACH_ASSIGN(file, read_flight_file(text, one_line(name)));
  if (file.rank != *rank) {
    return invalid(fmt::format("it is of rank {}", file.rank));
  }
  // What takes long to compare, and no recorder has written.
  for (const auto& [what, count] : {std::pair("operations", file.operations.size()),
                                    std::pair("messages", file.messages.size())}) {
    if (count > FlightRecorder::kEntries) {
      return invalid(fmt::format("it has {} {}, and a recorder holds {}", count, what,
                                 FlightRecorder::kEntries));
    }
  }
  return file;
}

// The job of the file that was written last; the others are left out.
void Inspection::keep_one_job() {
  const auto latest = std::ranges::max_element(
      files_, {}, [](const auto& entry) { return entry.second.written_s; });
  report_.job = latest->second.job;
  report_.rank_count = latest->second.rank_count;
  std::erase_if(files_, [&](const auto& entry) {
    const FlightFile& file = entry.second;
    if (file.job == report_.job && file.rank_count == report_.rank_count) {
      return false;
    }
    report_.problems.push_back({fmt::format("rank-{}.json", file.rank),
                                fmt::format("it is of another job, {} of {} ranks",
                                            pleach::quoted(file.job), file.rank_count)});
    return true;
  });
  for (int32_t rank = 0; rank < report_.rank_count; ++rank) {
    if (!files_.contains(rank)) {
      report_.missing.push_back(rank);
    }
  }
}

void Inspection::collect_failures() {
  for (const auto& [rank, file] : files_) {
    channels_.insert(file.channels.begin(), file.channels.end());
    if (file.failure.empty()) {
      continue;
    }
    auto known = std::ranges::find(report_.failures, file.failure, &FlightReport::Failure::message);
    if (known == report_.failures.end()) {
      report_.failures.push_back({file.failure, {}});
      known = report_.failures.end() - 1;
    }
    known->ranks.push_back(rank);
  }
}

FlightReport::Place place_of(const FlightFile& file, const std::string& channel) {
  FlightReport::Place place;
  place.channel = channel;
  place.rank = file.rank;
  for (const FlightFile::Operation& operation : file.operations) {
    if (operation.channel != channel) {
      continue;
    }
    place.begun = std::max(place.begun, operation.operation);
    if (operation.is_over) {
      place.done = std::max(place.done, operation.operation);
    } else if (place.operation == 0 || operation.operation < place.operation) {
      place.operation = operation.operation;
      place.text = request_text(operation.fingerprint);
      place.since_s = file.written_s - operation.started_s;
      place.awaited = operation.awaited;
    }
  }
  return place;
}

void Inspection::find_places() {
  for (const auto& [number, channel] : channels_) {
    std::vector<FlightReport::Place> places;
    int64_t most = 0;
    for (const auto& [rank, file] : files_) {
      if (std::ranges::find(channel.ranks, rank) != channel.ranks.end()) {
        places.push_back(place_of(file, number));
        places.back().communicator = channel.name;
        most = std::max(most, places.back().begun);
      }
    }
    for (FlightReport::Place& place : places) {
      place.is_behind = place.begun < most;
      if (most > 0) {
        report_.places.push_back(std::move(place));
      }
    }
  }
}

// What all ranks tell of each operation.
void Inspection::compare_operations() {
  std::map<std::pair<std::string, int64_t>, Telling> operations;
  for (const auto& [rank, file] : files_) {
    for (const FlightFile::Operation& operation : file.operations) {
      operations[{operation.channel, operation.operation}].emplace_back(rank, &operation);
    }
  }
  for (const auto& [key, telling] : operations) {
    const auto channel = channels_.find(key.first);
    compare(channel == channels_.end() ? key.first : channel->second.name, telling);
    note_lateness(telling);
  }
  for (auto& [rank, late] : lateness_) {
    late.mean_s /= static_cast<double>(late.operation_count);
    report_.lateness.push_back(late);
  }
  std::ranges::stable_sort(report_.lateness, std::greater<>(), &FlightReport::Lateness::mean_s);
}

// Those who differ from the first of those who agree with the most.
void Inspection::compare(const std::string& communicator, const Telling& telling) {
  std::map<uint64_t, int64_t> votes;
  for (const auto& [rank, operation] : telling) {
    ++votes[operation->fingerprint];
  }
  const auto usual = std::ranges::max_element(
      telling, {}, [&](const auto& one) { return votes[one.second->fingerprint]; });
  for (const auto& [rank, operation] : telling) {
    if (operation->fingerprint != usual->second->fingerprint &&
        report_.mismatches.size() < kMostMismatches) {
      report_.mismatches.push_back(
          fmt::format("operation {} of {}: {}", operation->operation, one_line(communicator),
                      difference_text(Rank{rank}, operation->fingerprint, Rank{usual->first},
                                      usual->second->fingerprint)));
    }
  }
}

void Inspection::note_lateness(const Telling& telling) {
  if (telling.size() < 2) {
    return;
  }
  const auto [first, last] = std::ranges::minmax_element(
      telling, {}, [](const auto& one) { return one.second->started_s; });
  for (const auto& one : telling) {
    FlightReport::Lateness& late = lateness_[one.first];
    const double seconds = one.second->started_s - first->second->started_s;
    late.rank = one.first;
    late.last_count += &one == &*last ? 1 : 0;
    late.mean_s += seconds;
    late.most_s = std::max(late.most_s, seconds);
    ++late.operation_count;
  }
}

Result<FlightReport> Inspection::run() {
  PLEACH_TRY(read_folder());
  return compare_all();
}

Result<FlightReport> Inspection::compare_all() {
  if (files_.empty()) {
    return invalid(fmt::format(
        "{} has no flight file of a rank{}", pleach::quoted(report_.folder),
        report_.problems.empty()
            ? ""
            : fmt::format(": {}: {}", report_.problems[0].file, report_.problems[0].why)));
  }
  keep_one_job();
  collect_failures();
  find_places();
  compare_operations();
  report_.messages = match_messages(files_);
  return std::move(report_);
}

Result<FlightReport> Inspection::run_with_groups() {
  PLEACH_TRY(read_folder());
  for (const std::string& group : groups_) {
    if (Result<FlightReport> of_group = Inspection(group).run()) {
      report_.groups.push_back(std::move(of_group).value());
    } else {
      report_.problems.push_back(
          {one_line(std::filesystem::path(group).filename().string()), of_group.error().message});
    }
  }
  if (files_.empty() && !report_.groups.empty()) {
    return std::move(report_);
  }
  return compare_all();
}

}  // namespace

Result<FlightReport> inspect_flight(const std::string& folder) {
  return Inspection(folder).run_with_groups();
}

}  // namespace pleach
