// ProcessGroup backend "pleach": c10d's collectives and messages over the C interface.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "elements.h"
#include "group.h"
#include "request.h"
#include "work.h"

namespace pleach_torch {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// Tensors may be of any strides: what does not lie end to end is copied. All ranks call the same
// collectives in the same order. Sizes are checked here, with the collective's name; what differs
// between ranks ends the group, with both sides named.
class Backend final : public c10d::Backend {
 public:
  //   global_ranks  of the group; none: it is the default one
  explicit Backend(std::shared_ptr<Group> group, std::vector<uint64_t> global_ranks = {});
  ~Backend() override;

  const std::string getBackendName() const override { return "pleach"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  const std::shared_ptr<Group>& group() const { return group_; }

  // --- Collectives (collectives.cc, shards.cc, sparse.cc)
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Sums alone; returns when it is done.
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // --- Messages (messages.cc)
  WorkPointer send(Tensors& tensors, int target, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  // Rank 0 hears from all, and names who did not come; the group is aborted then.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  // --- The group
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  // Of the host's memory alone, whose index is -1.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void abort() override;
  void shutdown() override;
  c10d::ErrorType getError() override;

 private:
  // The beginning of a request of these options: any of c10d's.
  template <typename AnyOptions>
  Request request(c10d::OpType kind, const char* name, pleach_collective collective,
                  const AnyOptions& options) const {
    Request request(kind, name, {rank_, size_});
    request.asked.collective = collective;
    request.task.is_async = options.asyncOp;
    request.task.timeout = timeout_of(options.timeout);
    return request;
  }
  // How a collective is called that has a form of one tensor and one of several.
  struct Form {
    c10d::OpType kind;
    const char* name;
    const char* what;  // for errors
  };
  WorkPointer allgather_pieces(const Form& form, const Tensors& outputs, const Tensors& inputs,
                               const c10d::AllgatherOptions& options);
  WorkPointer reduce_scatter_pieces(const Form& form, const Tensors& outputs, const Tensors& inputs,
                                    const c10d::ReduceScatterOptions& options);
  WorkPointer allreduce_as(c10d::OpType kind, const char* name, Tensors& tensors,
                           const c10d::AllreduceOptions& options);
  // What was wanted, or else what operations of the group have.
  std::chrono::milliseconds timeout_of(std::chrono::milliseconds wanted) const;
  WorkPointer begin(Request request);
  WorkPointer begin_task(Task task, const Ask& ask);
  uint64_t next_sequence(const Task& task);
  WorkPointer note(WorkPointer work);
  WorkPointer message(Request request, int peer, int tag);
  WorkPointer receive(Request wanted, const Tensors& tensors, int source, int tag);
  bool await_message(pleach_operation* operation, std::chrono::steady_clock::time_point deadline);
  void monitor_as_first(std::chrono::milliseconds timeout, bool wait_all_ranks);
  void monitor_as_other(std::chrono::milliseconds timeout);
  void check_rank(const char* what, int64_t rank) const;

  const std::shared_ptr<Group> group_;
  const c10::intrusive_ptr<Options> options_;
  std::atomic<uint64_t> sequence_ = 0;
  std::atomic<uint64_t> message_sequence_ = 0;
  std::atomic<int64_t> timeout_ms_;
  std::mutex coalescing_mutex_;
  bool is_coalescing_ = false;
  std::vector<WorkPointer> coalesced_;
};

}  // namespace pleach_torch
