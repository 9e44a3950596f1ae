// Work over an operation of the runtime.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "buffers.h"
#include "flight.h"
#include "group.h"

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
  std::chrono::milliseconds timeout = std::chrono::milliseconds(0);  // 0: the group's
  bool is_message = false;
  int peer = -1;  // of a message
};

// Asks the runtime for it: blocking where `operation` is NULL.
using Ask = std::function<pleach_status(pleach_communicator*, pleach_operation** operation)>;

class Work final : public c10d::Work {
 public:
  Work(std::shared_ptr<Group> group, Task task, uint64_t sequence);
  ~Work() override;

  // Starts it, or runs it where the caller waits at once. Throws what the runtime refuses, and how
  // what was run failed.
  static c10::intrusive_ptr<Work> begin(std::shared_ptr<Group> group, Task task, uint64_t sequence,
                                        const Ask& ask);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  Tensors result() override;
  void synchronize() override {}
  // Waits, at most so long: then the operation goes on. 0: the timeout that it was started with,
  // after which the group is aborted.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  // Holds the list of outputs.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }
  float getDuration() const override;

 private:
  void run(const Ask& ask);
  void start(const Ask& ask);
  static void called_back(void* work, pleach_status status, const char* error);
  void finish(pleach_status status, const char* error);
  void complete(const c10::intrusive_ptr<c10::ivalue::Future>& future) const;
  void await_end(std::chrono::milliseconds timeout);
  c10::IValue value() const;
  std::string text() const;  // "all_reduce 7 of group default_pg"

  const std::shared_ptr<Group> group_;
  Task task_;
  const uint64_t sequence_;
  pleach_operation* operation_ = nullptr;
  std::atomic<bool> is_done_ = false;
  int source_ = -1;
  FlightPlace flight_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Several as one: batch_isend_irecv, and coalesced calls that take several operations.
class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  Tensors result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace pleach_torch
