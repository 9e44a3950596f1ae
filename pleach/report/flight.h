// What the flight files of a job's ranks say: who is behind, who waits for whom, who is slow.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// One rank's file.
struct FlightFile {
  struct Operation {
    std::string channel;  // its number, in hexadecimal
    int64_t operation = 0;
    uint64_t fingerprint = 0;
    bool is_over = false;          // well
    double started_s = 0;          // by the clock of the world, as all times
    std::vector<int32_t> awaited;  // ranks of which no segment has come
  };
  struct Message {
    std::string channel;
    bool is_send = false;
    int32_t peer = -1;  // -1: any
    int32_t tag = 0;
    int64_t bytes = 0;
    int64_t sequence = 0;     // from its source to its target: 1, 2, ...; 0: not known
    bool is_over = false;     // well
    bool is_matched = false;  // the other side has taken its part, as far as this one knows
    double started_s = 0;
  };
  struct Channel {
    std::string name;
    std::vector<int32_t> ranks;
  };
  int32_t rank = 0;
  int32_t rank_count = 1;
  std::string job;
  std::string failure;  // empty: none
  double written_s = 0;
  std::vector<Operation> operations;
  std::vector<Message> messages;  // the earliest first
  std::map<std::string, Channel> channels;
};

// Reads one, which anybody may have written.
//   errors  kInvalidArgument naming `where`, and what is wrong with it
Result<FlightFile> read_flight_file(std::string_view text, std::string_view where);

struct FlightReport {
  struct Problem {
    std::string file;
    std::string why;
  };
  struct Failure {
    std::string message;
    std::vector<int32_t> ranks;  // that tell of it
  };
  // Where a rank stands on a communicator.
  struct Place {
    std::string communicator, channel;
    int32_t rank = 0;
    int64_t begun = 0;  // the last operation that it has begun; 0: none
    int64_t done = 0;   // the last of which it has the result
    std::string text;   // the first one that is not over; empty: none
    int64_t operation = 0;
    double since_s = 0;
    std::vector<int32_t> awaited;  // of that
    bool is_behind = false;        // others have begun more
  };
  // How long after the first of a communicator's ranks this one has begun its operations.
  struct Lateness {
    int32_t rank = 0;
    int64_t operation_count = 0;
    int64_t last_count = 0;  // it was the last to begin
    double mean_s = 0;
    double most_s = 0;
  };
  // A message that is in flight on a rank, or that was sent and not received.
  struct Message {
    std::string communicator;
    int32_t rank = 0;
    bool is_send = false;
    int32_t peer = -1;  // -1: any
    int32_t tag = 0;
    int64_t bytes = 0;
    double since_s = 0;     // it began
    std::string unmatched;  // what its peer lacks; empty: nothing
  };
  std::string folder;
  std::string job;
  int32_t rank_count = 0;
  std::vector<int32_t> missing;  // ranks without a file
  std::vector<Problem> problems;
  std::vector<Failure> failures;
  std::vector<std::string> mismatches;
  std::vector<Place> places;       // by communicator and rank
  std::vector<Message> messages;   // what nobody matches first, then the oldest
  std::vector<Lateness> lateness;  // the slowest first
  // Reports of the folders `group-NAME` in it, by name. Each belongs to endpoints of its own.
  std::vector<FlightReport> groups = {};
};

// One line: the JSON object of docs/cli.md, "flight".
std::string to_json(const FlightReport& report);

}  // namespace pleach
