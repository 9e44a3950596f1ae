// pleach flight: what the flight recorders of a job's ranks tell.
#include "pleach/api/flight.h"

#include <fmt/core.h>

#include <cmath>
#include <span>

#include "pleach/cli/common.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

// "rank 3", "ranks 0, 1, 3".
std::string ranks_text(std::span<const int32_t> ranks) {
  std::vector<std::string> words;
  for (const int32_t rank : ranks) {
    words.push_back(std::to_string(rank));
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", join(words, ", "));
}

std::string time_text(double seconds) {
  constexpr double kMostSeconds = 9e6;  // of what is counted in picoseconds
  return format_time(std::llround(std::clamp(seconds, 0.0, kMostSeconds) *
                                  static_cast<double>(kPicosecondsPerSecond)));
}

std::string places_text(const FlightReport& report) {
  using enum Table::Align;
  Table table({{"communicator", kLeft},
               {"rank", kRight},
               {"begun", kRight},
               {"done", kRight},
               {"in flight", kLeft},
               {"for", kRight},
               {"waits for", kLeft}});
  for (const FlightReport::Place& place : report.places) {
    const bool is_in_flight = place.operation > 0;
    table.add({one_line(place.communicator), std::to_string(place.rank),
               std::to_string(place.begun), std::to_string(place.done),
               is_in_flight ? fmt::format("{}: {}", place.operation, place.text) : "",
               is_in_flight ? time_text(place.since_s) : "",
               place.awaited.empty() ? "" : ranks_text(place.awaited)});
  }
  return table.text();
}

// Who is behind, and where the others are.
std::string behind_text(const FlightReport& report) {
  std::string text;
  for (const FlightReport::Place& place : report.places) {
    int64_t most = 0;
    for (const FlightReport::Place& other : report.places) {
      most = other.channel == place.channel ? std::max(most, other.begun) : most;
    }
    if (place.is_behind) {
      text += fmt::format("behind: rank {} has begun {} operations of {}, others {}\n", place.rank,
                          place.begun, one_line(place.communicator), most);
    }
  }
  return text;
}

// "message: rank 0 sends 4 bytes to rank 1 with tag 7, for 3 s: rank 1 receives nothing ...".
std::string message_text(const FlightReport::Message& message) {
  const std::string peer = message.peer < 0 ? "any rank" : fmt::format("rank {}", message.peer);
  return fmt::format("message: rank {} {} {} bytes {} {} with tag {} ({}), for {}{}{}\n",
                     message.rank, message.is_send ? "sends" : "receives", message.bytes,
                     message.is_send ? "to" : "from", peer, message.tag,
                     one_line(message.communicator), time_text(message.since_s),
                     message.unmatched.empty() ? "" : ": ", message.unmatched);
}

std::string text_of(const FlightReport& report) {
  if (report.rank_count == 0) {
    return "";  // what there is is of groups
  }
  std::string text =
      fmt::format("job {}, {} ranks\n", pleach::quoted(report.job), report.rank_count);
  if (!report.missing.empty()) {
    text += fmt::format("missing: {}\n", ranks_text(report.missing));
  }
  for (const FlightReport::Problem& problem : report.problems) {
    text += fmt::format("left out: {}: {}\n", problem.file, problem.why);
  }
  for (const FlightReport::Failure& failure : report.failures) {
    text += fmt::format("failed: {} (told by {})\n", one_line(failure.message),
                        ranks_text(failure.ranks));
  }
  text += places_text(report) + behind_text(report);
  for (const std::string& mismatch : report.mismatches) {
    text += fmt::format("mismatch: {}\n", mismatch);
  }
  for (const FlightReport::Message& message : report.messages) {
    text += message_text(message);
  }
  if (!report.lateness.empty()) {
    const FlightReport::Lateness& late = report.lateness.front();
    text += fmt::format(
        "slowest: rank {} begins {} after the first on average, {} at most, and is the last in {} "
        "of {} operations\n",
        late.rank, time_text(late.mean_s), time_text(late.most_s), late.last_count,
        late.operation_count);
  }
  return text;
}

Result<ExitCode> run_flight(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.required_argument("FOLDER", "where the ranks have left rank-R.json");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(report, inspect_flight(line.text("FOLDER")));
  std::string text = line.json() ? to_json(report) + "\n" : text_of(report);
  for (const FlightReport& group : report.groups) {
    text += line.json() ? "" : (text.empty() ? "" : "\n") + text_of(group);
  }
  print_text(invocation.out, text);
  return ExitCode::kDone;
}

}  // namespace

extern const Command kFlightCommand = {
    "flight", "reads the flight recorders that the ranks of a job have left",
    "  PLEACH_FLIGHT_FOLDER=flight pleach run --ranks 4 --algorithm ring\n"
    "  pleach flight flight          who is behind, who waits for whom, who is slow\n"
    "  pleach flight flight --json   for scripts\n"
    "A rank leaves a file when its job fails, and with PLEACH_FLIGHT_SIGNAL=USR2 whenever that\n"
    "signal comes.\n",
    run_flight};

}  // namespace pleach
