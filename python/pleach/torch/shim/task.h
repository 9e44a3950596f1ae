// Task: what a Work is about.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "buffers.h"

namespace pleach_torch {

// What is to be done, as the backend understood it.
struct Task {
  c10d::OpType kind = c10d::OpType::UNKNOWN;
  const char* name = "";  // "all_reduce"
  Tensors inputs;
  // Of the results: a list, or several.
  std::vector<Tensors> outputs;
  std::vector<Landing> landings;  // when it is done
  Tensors kept;                   // memory that it needs until then
  bool is_async = true;           // otherwise the caller waits at once
  std::chrono::milliseconds timeout = std::chrono::milliseconds(0);  // of each of its waits
  bool is_message = false;
  int peer = -1;  // of a message
};

}  // namespace pleach_torch
