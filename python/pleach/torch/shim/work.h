// Work over an operation of the runtime.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "flight.h"
#include "group.h"
#include "request.h"
#include "staging.h"
#include "task.h"

namespace pleach_torch {

// Asks the runtime for it: blocking where `operation` is NULL.
using Ask = std::function<pleach_status(pleach_communicator*, pleach_operation** operation)>;

// Why it is broken off where those before it take too long.
constexpr const char* kHeldUp = "what was called before it has not been started";

class Work final : public c10d::Work {
 public:
  Work(std::shared_ptr<Group> group, Task task, uint64_t sequence);
  ~Work() override;

  // Starts it, or runs it where the caller waits at once. Throws what the runtime refuses, and how
  // what was run failed.
  static c10::intrusive_ptr<Work> begin(std::shared_ptr<Group> group, Task task, uint64_t sequence,
                                        const Ask& ask);
  // The same of a device's tensors, which travel through the host's memory. Returns at once.
  //   request  not placed
  static c10::intrusive_ptr<Work> begin_staged(std::shared_ptr<Group> group, Task task,
                                               uint64_t sequence,
                                               const std::shared_ptr<Request>& request);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  Tensors result() override;
  // Lets the caller's stream wait for the results, on a device.
  void synchronize() override;
  // Waits, at most so long: then the operation goes on. 0: until it is done, or fails as others do
  // not take part within the timeout that it was started with. On a device it waits until the
  // results are on their way there, and lets the caller's stream wait for the rest; with a
  // timeout, until they are there.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  // Holds the list of outputs.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }
  float getDuration() const override;

  // --- For what moves it on
  Group& group() const { return *group_; }
  std::string text() const;  // "all_reduce 7 of group default_pg"
  void set_source(int rank) { source_ = rank; }
  // Ends its group, on every rank: a later operation must not take its place on the wire. Returns
  // what to end it with.
  std::exception_ptr break_off(const std::string& why) const;
  void start(const Ask& ask);
  // How it ended. arrival: of the results, on a device.
  void end(std::exception_ptr exception, std::shared_ptr<Arrival> arrival);

 private:
  using Operation = std::shared_ptr<pleach_operation>;
  Operation operation() const;
  void run(const Ask& ask);
  static void called_back(void* work, pleach_status status, const char* error);
  void finish(pleach_status status, const char* error);
  void complete(const c10::intrusive_ptr<c10::ivalue::Future>& future) const;
  void await_end(std::chrono::milliseconds timeout);
  // Waits; false: it has not ended.
  bool ends_within(std::chrono::milliseconds longest);
  c10::IValue value() const;
  std::vector<c10::Device> devices() const;

  const std::shared_ptr<Group> group_;
  Task task_;
  const uint64_t sequence_;
  struct Run {
    Operation operation = nullptr;  // null: not started, or done: it would keep its endpoint
    int64_t duration_ns = -1;       // unknown
  } run_;
  bool is_queued_ = false;  // another thread starts it
  std::atomic<bool> is_done_ = false;
  std::shared_ptr<Arrival> arrival_;
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
