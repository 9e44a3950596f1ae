// Collectives in which every rank has a part of the whole: all_gather, gather, scatter,
// reduce_scatter.
#include <map>

#include "backend.h"

namespace pleach_torch {
namespace {

const Tensors& only_list(const char* what, const std::vector<Tensors>& lists, int size) {
  TORCH_CHECK(lists.size() == 1, "pleach: ", what, ": takes one list of tensors, not ",
              lists.size());
  TORCH_CHECK(lists[0].size() == static_cast<size_t>(size), "pleach: ", what, ": a list of ",
              lists[0].size(), " tensors for ", size, " ranks");
  check_tensors(what, lists[0]);
  return lists[0];
}

// This rank's part, of a list that has those of all.
void check_part(const char* what, const at::Tensor& part, const at::Tensor& listed, int rank) {
  check_tensors(what, {part, listed});
  TORCH_CHECK(part.numel() == listed.numel(), "pleach: ", what, ": rank ", rank, " has ",
              part.numel(), " elements, and ", listed.numel(), " in the list");
}

void check_whole(const char* what, const at::Tensor& whole, const at::Tensor& part, int size) {
  check_tensors(what, {whole, part});
  TORCH_CHECK(whole.numel() == part.numel() * size, "pleach: ", what, ": parts of ", part.numel(),
              " elements of ", size, " ranks make ", part.numel() * size, ", not ", whole.numel());
}

// A list's sizes, where they differ; none otherwise.
std::vector<int64_t> uneven_counts(const Tensors& tensors) {
  std::vector<int64_t> counts;
  bool is_even = true;
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(tensor.numel());
    is_even &= counts.back() == counts.front();
  }
  return is_even ? std::vector<int64_t>() : counts;
}

// The elements of the ranks before this one.
int64_t size_before(const Tensors& list, int rank) {
  return total_size(Tensors(list.begin(), list.begin() + rank));
}

// Whether each part is its rank's place in the whole, which lies end to end.
bool are_in_place(const Tensors& wholes, const Tensors& parts, int rank) {
  if (!are_adjacent(wholes)) {
    return false;
  }
  for (size_t index = 0; index < parts.size(); ++index) {
    const auto* whole = static_cast<const std::byte*>(wholes[index].const_data_ptr());
    if (!parts[index].is_contiguous() ||
        parts[index].const_data_ptr() != whole + rank * parts[index].nbytes()) {
      return false;
    }
  }
  return true;
}

// Indices of tensors of one type each.
std::vector<std::vector<size_t>> by_type(const Tensors& tensors) {
  std::map<at::ScalarType, std::vector<size_t>> groups;
  for (size_t index = 0; index < tensors.size(); ++index) {
    groups[tensors[index].scalar_type()].push_back(index);
  }
  std::vector<std::vector<size_t>> all;
  for (auto& [type, indices] : groups) {
    all.push_back(std::move(indices));
  }
  return all;
}

// Calls for the tensors of each type apart, and joins what comes of it.
template <typename Call>
WorkPointer for_each_type(int rank, const Tensors& outputs, const Tensors& inputs,
                          const Call& call) {
  std::vector<WorkPointer> works;
  for (const std::vector<size_t>& indices : by_type(inputs)) {
    Tensors some_outputs;
    Tensors some_inputs;
    for (const size_t index : indices) {
      some_outputs.push_back(outputs[index]);
      some_inputs.push_back(inputs[index]);
    }
    works.push_back(call(some_outputs, some_inputs));
  }
  return c10::make_intrusive<CoalescedWork>(rank, std::move(works));
}

void check_pairs(const char* what, const Tensors& outputs, const Tensors& inputs) {
  TORCH_CHECK(!inputs.empty(), "pleach: ", what, ": there is no tensor");
  TORCH_CHECK(outputs.size() == inputs.size(), "pleach: ", what, ": ", inputs.size(),
              " inputs and ", outputs.size(), " outputs");
}

bool are_mixed(const Tensors& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.scalar_type() != tensors[0].scalar_type();
  });
}

}  // namespace

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const at::Tensor& input = only(kName, inputs);
  const Tensors& list = only_list(kName, outputs, size_);
  check_part(kName, input, list[rank_], rank_);
  Request wanted = request(c10d::OpType::ALLGATHER, kName, PLEACH_ALL_GATHER);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = outputs;
  Flat from = flat_input(inputs);
  const Flat to = flat_output(list, wanted.task.landings);
  separate(from, to, size_before(list, rank_), inputs);
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.counts = uneven_counts(list);
  wanted.asked.count = wanted.counts.empty() ? input.numel() : 0;
  scale(wanted, moved_elements(input.scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor";
  check_whole(kName, output, input, size_);
  Request wanted = request(c10d::OpType::_ALLGATHER_BASE, "_all_gather_base", PLEACH_ALL_GATHER);
  set_caller(wanted, options);
  wanted.task.inputs = {input};
  wanted.task.outputs = {{output}};
  Flat from = flat_input({input});
  const Flat to = flat_output({output}, wanted.task.landings);
  separate(from, to, rank_ * from.size, {input});
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.count = input.numel();
  scale(wanted, moved_elements(input.scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), "pleach: ", kName, ": ", outputs.size(),
              " lists of outputs for ", size_, " ranks");
  check_tensors(kName, inputs);
  Tensors all;
  for (const Tensors& list : outputs) {
    check_pairs(kName, list, inputs);
    for (size_t index = 0; index < inputs.size(); ++index) {
      check_part(kName, inputs[index], list[index], rank_);
      all.push_back(list[index]);
    }
  }
  Request wanted = request(c10d::OpType::ALLGATHER_COALESCED, kName, PLEACH_ALL_GATHER);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = outputs;
  Flat from = flat_input(inputs);
  const Flat to = flat_output(all, wanted.task.landings);
  separate(from, to, rank_ * from.size, inputs);
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.count = from.size;
  scale(wanted, moved_elements(inputs[0].scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  check_pairs(kName, outputs, inputs);
  if (are_mixed(inputs)) {
    return for_each_type(rank_, outputs, inputs, [&](Tensors& some_outputs, Tensors& some_inputs) {
      return allgather_into_tensor_coalesced(some_outputs, some_inputs, options);
    });
  }
  check_tensors(kName, inputs);
  Request wanted = request(c10d::OpType::COALESCED, kName, PLEACH_ALL_GATHER);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = {outputs};
  wanted.asked.piece_count = static_cast<int32_t>(inputs.size());
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_whole(kName, outputs[index], inputs[index], size_);
    wanted.counts.insert(wanted.counts.end(), size_, inputs[index].numel());
  }
  const Flat to = flat_output(outputs, wanted.task.landings);
  const bool is_in_place = are_in_place(outputs, inputs, rank_);
  Flat from = is_in_place ? to : flat_input(inputs);
  if (!is_in_place) {
    separate(from, to, -1, inputs);
  }
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  scale(wanted, moved_elements(inputs[0].scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const c10d::GatherOptions& options) {
  constexpr const char* kName = "gather";
  const at::Tensor& input = only(kName, inputs);
  check_rank(kName, options.rootRank);
  const bool is_root = options.rootRank == rank_;
  TORCH_CHECK(is_root || outputs.empty() || outputs[0].empty(), "pleach: ", kName, ": rank ", rank_,
              " has a list of outputs, and is not the root");
  Request wanted = request(c10d::OpType::GATHER, kName, PLEACH_GATHER);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = outputs;
  Flat from = flat_input(inputs);
  Flat to;
  if (is_root) {
    for (const at::Tensor& output : only_list(kName, outputs, size_)) {
      check_part(kName, input, output, rank_);
    }
    to = flat_output(outputs[0], wanted.task.landings);
  }
  separate(from, to, rank_ * from.size, inputs);
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = input.numel();
  scale(wanted, moved_elements(input.scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ScatterOptions& options) {
  constexpr const char* kName = "scatter";
  const at::Tensor& output = only(kName, outputs);
  check_rank(kName, options.rootRank);
  const bool is_root = options.rootRank == rank_;
  TORCH_CHECK(is_root || inputs.empty() || inputs[0].empty(), "pleach: ", kName, ": rank ", rank_,
              " has a list of inputs, and is not the root");
  Request wanted = request(c10d::OpType::SCATTER, kName, PLEACH_SCATTER);
  set_caller(wanted, options);
  wanted.task.outputs = {outputs};
  Flat from;
  if (is_root) {
    for (const at::Tensor& input : only_list(kName, inputs, size_)) {
      check_part(kName, output, input, rank_);
    }
    wanted.task.inputs = inputs[0];
    from = flat_input(inputs[0]);
  }
  const Flat to = flat_output(outputs, wanted.task.landings);
  if (is_root) {
    separate(from, to, rank_ * to.size, inputs[0]);
  }
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = output.numel();
  scale(wanted, moved_elements(output.scalar_type()));
  return begin(std::move(wanted));
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor& output = only(kName, outputs);
  const Tensors& list = only_list(kName, inputs, size_);
  check_part(kName, output, list[rank_], rank_);
  const Reduction reduction = reduction_of(output.scalar_type(), options.reduceOp, kName);
  Request wanted = request(c10d::OpType::REDUCE_SCATTER, kName, PLEACH_REDUCE_SCATTER);
  set_caller(wanted, options);
  wanted.task.inputs = list;
  wanted.task.outputs = {outputs};
  Flat from = flat_input(list);
  const Flat to = flat_output(outputs, wanted.task.landings);
  separate(from, to, size_before(list, rank_), list);
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.counts = uneven_counts(list);
  wanted.asked.count = wanted.counts.empty() ? output.numel() : 0;
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor";
  check_whole(kName, input, output, size_);
  const Reduction reduction = reduction_of(output.scalar_type(), options.reduceOp, kName);
  Request wanted =
      request(c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", PLEACH_REDUCE_SCATTER);
  set_caller(wanted, options);
  wanted.task.inputs = {input};
  wanted.task.outputs = {{output}};
  Flat from = flat_input({input});
  const Flat to = flat_output({output}, wanted.task.landings);
  separate(from, to, rank_ * to.size, {input});
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.count = output.numel();
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_pairs(kName, outputs, inputs);
  if (are_mixed(inputs)) {
    return for_each_type(rank_, outputs, inputs, [&](Tensors& some_outputs, Tensors& some_inputs) {
      return reduce_scatter_tensor_coalesced(some_outputs, some_inputs, options);
    });
  }
  check_tensors(kName, inputs);
  const Reduction reduction = reduction_of(inputs[0].scalar_type(), options.reduceOp, kName);
  Request wanted =
      request(c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, kName, PLEACH_REDUCE_SCATTER);
  set_caller(wanted, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = {outputs};
  wanted.asked.piece_count = static_cast<int32_t>(inputs.size());
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_whole(kName, inputs[index], outputs[index], size_);
    wanted.counts.insert(wanted.counts.end(), size_, outputs[index].numel());
  }
  Flat from = flat_input(inputs);
  const bool is_in_place = are_in_place(inputs, outputs, rank_);
  const Flat to = is_in_place ? from : flat_output(outputs, wanted.task.landings);
  if (!is_in_place) {
    separate(from, to, -1, inputs);
  }
  wanted.task.kept = {from.memory, to.memory};
  wanted.asked.input = from.data;
  wanted.asked.output = to.data;
  wanted.asked.reduction = reduction.reduction;
  scale(wanted, reduction.elements);
  return begin(std::move(wanted));
}

}  // namespace pleach_torch
