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
  const at::Tensor& tensor = only(kName, tensors);
  check_rank(kName, options.rootRank);
  Request wanted = request(c10d::OpType::BROADCAST, kName, PLEACH_BROADCAST);
  set_caller(wanted, options);
  wanted.task.inputs = tensors;
  wanted.task.outputs = {tensors};
  const bool is_root = options.rootRank == rank_;
  const Flat flat = is_root ? flat_input(tensors) : flat_output(tensors, wanted.task.landings);
  wanted.task.kept.push_back(flat.memory);
  wanted.asked.input = is_root ? flat.data : nullptr;
  wanted.asked.output = flat.data;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = flat.size;
  scale(wanted, moved_elements(tensor.scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* kName = "all_reduce";
  if (tensors.size() == 1 && tensors[0].layout() == at::kSparse) {
    return allreduce_sparse(tensors, options);
  }
  const at::Tensor& tensor = only(kName, tensors);
  TORCH_CHECK_NOT_IMPLEMENTED(!options.sparseIndices, "pleach: ", kName,
                              ": sparse indices are not supported");
  const Reduction reduction = reduction_of(tensor.scalar_type(), options.reduceOp, kName);
  Request wanted = request(c10d::OpType::ALLREDUCE, kName, PLEACH_ALL_REDUCE);
  set_caller(wanted, options);
  wanted.task.inputs = tensors;
  wanted.task.outputs = {tensors};
  const Flat flat = flat_in_place(tensors, wanted.task.landings);
  wanted.task.kept.push_back(flat.memory);
  wanted.asked.input = flat.data;
  wanted.asked.output = flat.data;
  wanted.asked.count = flat.size;
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const c10d::AllreduceCoalescedOptions& options) {
  constexpr const char* kName = "all_reduce_coalesced";
  check_tensors(kName, tensors);
  const Reduction reduction = reduction_of(tensors[0].scalar_type(), options.reduceOp, kName);
  Request wanted = request(c10d::OpType::ALLREDUCE_COALESCED, kName, PLEACH_ALL_REDUCE);
  set_caller(wanted, options);
  wanted.task.inputs = tensors;
  wanted.task.outputs = {tensors};
  const Flat flat = flat_in_place(tensors, wanted.task.landings);
  wanted.task.kept.push_back(flat.memory);
  wanted.asked.input = flat.data;
  wanted.asked.output = flat.data;
  wanted.asked.count = flat.size;
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr const char* kName = "reduce";
  const at::Tensor& tensor = only(kName, tensors);
  check_rank(kName, options.rootRank);
  const Reduction reduction = reduction_of(tensor.scalar_type(), options.reduceOp, kName);
  Request wanted = request(c10d::OpType::REDUCE, kName, PLEACH_REDUCE);
  set_caller(wanted, options);
  wanted.task.inputs = tensors;
  wanted.task.outputs = {tensors};
  const bool is_root = options.rootRank == rank_;
  const Flat flat = is_root ? flat_in_place(tensors, wanted.task.landings) : flat_input(tensors);
  wanted.task.kept.push_back(flat.memory);
  wanted.asked.input = flat.data;
  wanted.asked.output = is_root ? flat.data : nullptr;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = flat.size;
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  Task task;
  task.kind = c10d::OpType::BARRIER;
  task.name = "barrier";
  task.is_async = options.asyncOp;
  task.timeout = own_timeout(options.timeout);
  return begin_task(std::move(task), &pleach_barrier);
}

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_splits,
                                   std::vector<int64_t>& input_splits,
                                   const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  check_tensors(kName, {input, output});
  Request wanted = request(c10d::OpType::ALLTOALL_BASE, kName, PLEACH_ALL_TO_ALL);
  set_caller(wanted, options);
  wanted.task.inputs = {input};
  wanted.task.outputs = {{output}};
  wanted.counts = split_counts("input", input, input_splits, size_);
  wanted.receive_counts = split_counts("output", output, output_splits, size_);
  Flat from = flat_input({input});
  const Flat to = flat_output({output}, wanted.task.landings);
  // In place where each rank sends to each as much as it receives from there.
  separate(from, to, wanted.counts == wanted.receive_counts ? 0 : -1, {input});
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  scale(wanted, moved_elements(input.scalar_type()));
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
  Request wanted = request(c10d::OpType::ALLTOALL, kName, PLEACH_ALL_TO_ALL);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = {outputs};
  for (int rank = 0; rank < size_; ++rank) {
    wanted.counts.push_back(inputs[rank].numel());
    wanted.receive_counts.push_back(outputs[rank].numel());
  }
  Flat from = flat_input(inputs);
  const Flat to = flat_output(outputs, wanted.task.landings);
  // In place where each rank sends to each as much as it receives from there.
  separate(from, to, wanted.counts == wanted.receive_counts ? 0 : -1, inputs);
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  scale(wanted, moved_elements(inputs[0].scalar_type()));
  return begin(std::move(wanted));
}

}  // namespace pleach_torch
