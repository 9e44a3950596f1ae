// What has one tensor for all ranks, or exchanges between all of them.
#include "backend.h"

namespace pleach_torch {
namespace {

// What a rank exchanges with each, in elements: rows of the tensor.
std::vector<int64_t> split_counts(const char* side, const at::Tensor& tensor,
                                  const std::vector<int64_t>& splits, int size) {
  constexpr const char* kName = "all_to_all_single";
  TORCH_CHECK(tensor.dim() > 0, "pleach: ", kName, ": the ", side, " has no dimension to split");
  const int64_t rows = tensor.size(0);
  const int64_t row_size = rows == 0 ? 1 : tensor.numel() / rows;
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, "pleach: ", kName, ": ", rows, " rows of the ", side,
                " do not divide among ", size, " ranks");
    return std::vector<int64_t>(size, rows / size * row_size);
  }
  TORCH_CHECK(splits.size() == static_cast<size_t>(size), "pleach: ", kName, ": ", splits.size(),
              " splits of the ", side, " for ", size, " ranks");
  std::vector<int64_t> counts;
  int64_t total = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK(split >= 0, "pleach: ", kName, ": a split of ", split, " rows of the ", side);
    counts.push_back(split * row_size);
    total += split;
  }
  TORCH_CHECK(total == rows, "pleach: ", kName, ": splits of the ", side, " have ", total,
              " rows, it has ", rows);
  return counts;
}

}  // namespace

WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr const char* kName = "broadcast";
  only(kName, tensors);
  check_rank(kName, options.rootRank);
  Request wanted = request(c10d::OpType::BROADCAST, kName, PLEACH_BROADCAST, options);
  wanted.task.inputs = tensors;
  wanted.task.outputs = {tensors};
  wanted.is_one_buffer = options.rootRank == rank_;
  (wanted.is_one_buffer ? wanted.from : wanted.to) = tensors;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = tensors[0].numel();
  return begin(std::move(wanted));
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* kName = "all_reduce";
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) {
    return allreduce_sparse(tensors, options);
  }
  only(kName, tensors);
  TORCH_CHECK_NOT_IMPLEMENTED(!options.sparseIndices, "pleach: ", kName,
                              ": sparse indices are not supported");
  return allreduce_as(c10d::OpType::ALLREDUCE, kName, tensors, options);
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* kName = "all_reduce_coalesced";
  check_tensors(kName, tensors);
  return allreduce_as(c10d::OpType::ALLREDUCE_COALESCED, kName, tensors, options);
}

// One or several, which have been checked.
WorkPointer Backend::allreduce_as(c10d::OpType kind, const char* name, Tensors& tensors,
                                  const c10d::AllreduceOptions& options) {
  Request wanted = request(kind, name, PLEACH_ALL_REDUCE, options);
  wanted.task.inputs = wanted.from = wanted.to = tensors;
  wanted.task.outputs = {tensors};
  wanted.is_one_buffer = true;
  wanted.asked.count = total_size(tensors);
  wanted.reduce_by(options.reduceOp, name);
  return begin(std::move(wanted));
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr const char* kName = "reduce";
  only(kName, tensors);
  check_rank(kName, options.rootRank);
  Request wanted = request(c10d::OpType::REDUCE, kName, PLEACH_REDUCE, options);
  wanted.task.inputs = wanted.from = tensors;
  wanted.task.outputs = {tensors};
  wanted.is_one_buffer = options.rootRank == rank_;
  if (wanted.is_one_buffer) {
    wanted.to = tensors;
  }
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = tensors[0].numel();
  wanted.reduce_by(options.reduceOp, kName);
  return begin(std::move(wanted));
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  Task task;
  task.kind = c10d::OpType::BARRIER;
  task.name = "barrier";
  task.is_async = options.asyncOp;
  task.timeout = timeout_of(options.timeout);
  pleach_barrier_options barrier = {};
  barrier.size = sizeof barrier;
  barrier.deadline_ms = task.timeout.count();
  return begin_task(std::move(task),
                    [barrier](pleach_communicator* communicator, pleach_operation** operation) {
                      return pleach_barrier_with(communicator, &barrier, operation);
                    });
}

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_splits,
                                   std::vector<int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  check_tensors(kName, {input, output});
  Request wanted = request(c10d::OpType::ALLTOALL_BASE, kName, PLEACH_ALL_TO_ALL, options);
  wanted.task.inputs = wanted.from = {input};
  wanted.task.outputs = {{output}};
  wanted.to = {output};
  wanted.counts = split_counts("input", input, input_splits, size_);
  wanted.receive_counts = split_counts("output", output, output_splits, size_);
  return begin(std::move(wanted));
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                              const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  TORCH_CHECK(outputs.size() == static_cast<size_t>(size_) && inputs.size() == outputs.size(),
              "pleach: ", kName, ": ", inputs.size(), " inputs and ", outputs.size(),
              " outputs for ", size_, " ranks");
  check_tensors(kName, inputs);
  check_tensors(kName, outputs);
  check_tensors(kName, {inputs[0], outputs[0]});
  Request wanted = request(c10d::OpType::ALLTOALL, kName, PLEACH_ALL_TO_ALL, options);
  wanted.task.inputs = wanted.from = inputs;
  wanted.task.outputs = {outputs};
  wanted.to = outputs;
  wanted.counts = sizes_in(inputs);
  wanted.receive_counts = sizes_in(outputs);
  return begin(std::move(wanted));
}

}  // namespace pleach_torch
