// Request: a collective or message as the backend understood it, on its way to the C interface.
#pragma once

#include <cstdint>
#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "buffers.h"
#include "elements.h"
#include "pleach/api/pleach.h"
#include "task.h"

namespace pleach_torch {

// Counts are of PyTorch's elements until scale().
struct Request {
  struct Member {
    int rank;
    int rank_count;
  };

  Request(c10d::OpType kind, const char* name, Member its_member);

  // It reduces what it reads; `what` is for errors: "all_reduce".
  void reduce_by(const c10d::ReduceOp& op, const char* what);
  // Sets the buffers: tensors where they stand, or copies of them.
  void place();
  // Turns counts into those of the elements that travel, and lets `asked` point at them.
  void scale();
  // Asks the runtime for what place() and scale() have made of it.
  pleach_status perform(pleach_communicator* communicator, pleach_operation** operation) const;
  // The elements before this rank's part, where it may be its place in the whole; else -1.
  int64_t size_before() const;
  // Of its tensors.
  at::Device device() const { return (from.empty() ? to : from)[0].device(); }
  at::ScalarType type() const { return (from.empty() ? to : from)[0].scalar_type(); }

  Member member;
  Task task;
  pleach_request asked = {};
  // Of each rank of each piece where they differ, and what this rank receives of each.
  std::vector<int64_t> counts, receive_counts;
  std::optional<Elements> reduced;  // none: it only moves, any type
  // What is read and what is written, each as if it lay end to end; none: this rank does not.
  Tensors from, to;
  // What is read stands where the results come to stand; a broadcast's root only reads.
  bool is_one_buffer = false;
  struct Message {
    int32_t peer;
    int32_t tag;
  };
  std::optional<Message> message;  // it is one, not a collective
};

}  // namespace pleach_torch
