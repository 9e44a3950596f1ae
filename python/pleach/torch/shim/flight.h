// The last operations of this process's groups, as torchfrtrace wants to be told of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "buffers.h"

namespace pleach_torch {

enum class FlightState : uint8_t { kStarted, kCompleted, kFailed };

struct FlightRecord {
  uint64_t number = 0;  // of this process, from 0
  std::string group;
  const char* name = "";  // "all_reduce"
  int peer = -1;          // of a message
  bool is_message = false;
  uint64_t collective_sequence = 0;
  uint64_t message_sequence = 0;
  std::vector<std::vector<int64_t>> input_sizes, output_sizes;
  std::vector<at::ScalarType> input_types, output_types;
  int64_t created_ns = 0;
  int64_t ended_ns = 0;
  int64_t timeout_ms = 0;
  FlightState state = FlightState::kStarted;
  bool is_retired = false;
};

// Which record is an operation's; a later one may have taken its place.
struct FlightPlace {
  uint64_t number = 0;
  bool is_there = false;
};

// Thread safe.
class FlightRing {
 public:
  static FlightRing& of_process();

  FlightPlace begin(FlightRecord record);
  void end(FlightPlace place, FlightState state);
  std::vector<FlightRecord> records() const;  // the oldest first

 private:
  static constexpr size_t kMostRecords = 2048;

  mutable std::mutex mutex_;
  uint64_t count_ = 0;
  std::vector<FlightRecord> ring_;
};

std::vector<std::vector<int64_t>> sizes_of(const Tensors& tensors);
std::vector<at::ScalarType> types_of(const Tensors& tensors);

}  // namespace pleach_torch
