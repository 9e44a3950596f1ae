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
  std::vector<int64_t> counts = sizes_in(tensors);
  const bool is_even = std::all_of(counts.begin(), counts.end(),
                                   [&](int64_t count) { return count == counts.front(); });
  return is_even ? std::vector<int64_t>() : counts;
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
  const std::vector<std::vector<size_t>> types = by_type(inputs);
  if (types.size() == 1) {
    return call(outputs, inputs);
  }
  std::vector<WorkPointer> works;
  for (const std::vector<size_t>& indices : types) {
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

// The request of a collective whose parts and wholes have been checked.
//   list  of the ranks' parts: their sizes may differ
void set_parts(Request& wanted, const Tensors& from, const Tensors& to, const Tensors& list) {
  wanted.from = from;
  wanted.to = to;
  wanted.counts = uneven_counts(list);
  wanted.asked.count = wanted.counts.empty() ? list[0].numel() : 0;
}

// The same of pieces, each of which is even: one or several, of `parts` of every rank.
void set_pieces(Request& wanted, const Tensors& from, const Tensors& to, const Tensors& parts,
                int size) {
  wanted.from = from;
  wanted.to = to;
  if (parts.size() == 1) {
    wanted.asked.count = parts[0].numel();
    return;
  }
  wanted.asked.piece_count = static_cast<int32_t>(parts.size());
  for (const at::Tensor& part : parts) {
    wanted.counts.insert(wanted.counts.end(), size, part.numel());
  }
}

}  // namespace

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const at::Tensor& input = only(kName, inputs);
  const Tensors& list = only_list(kName, outputs, size_);
  check_part(kName, input, list[rank_], rank_);
  Request wanted = request(c10d::OpType::ALLGATHER, kName, PLEACH_ALL_GATHER, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = outputs;
  set_parts(wanted, inputs, list, list);
  return begin(std::move(wanted));
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), "pleach: ", kName, ": ", outputs.size(),
              " lists of outputs for ", size_, " ranks");
  check_tensors(kName, inputs);
  Request wanted = request(c10d::OpType::ALLGATHER_COALESCED, kName, PLEACH_ALL_GATHER, options);
  for (const Tensors& list : outputs) {
    check_pairs(kName, list, inputs);
    for (size_t index = 0; index < inputs.size(); ++index) {
      check_part(kName, inputs[index], list[index], rank_);
      wanted.to.push_back(list[index]);
    }
  }
  wanted.task.inputs = wanted.from = inputs;
  wanted.task.outputs = outputs;
  wanted.asked.count = total_size(inputs);
  return begin(std::move(wanted));
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const c10d::AllgatherOptions& options) {
  return allgather_pieces(
      {c10d::OpType::_ALLGATHER_BASE, "_all_gather_base", "all_gather_into_tensor"}, {output},
      {input}, options);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor_coalesced";
  check_pairs(kName, outputs, inputs);
  return for_each_type(rank_, outputs, inputs,
                       [&](const Tensors& some_outputs, const Tensors& some_inputs) {
                         return allgather_pieces({c10d::OpType::COALESCED, kName, kName},
                                                 some_outputs, some_inputs, options);
                       });
}

WorkPointer Backend::allgather_pieces(const Form& form, const Tensors& outputs,
                                      const Tensors& inputs,
                                      const c10d::AllgatherOptions& options) {
  check_tensors(form.what, inputs);
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_whole(form.what, outputs[index], inputs[index], size_);
  }
  Request wanted = request(form.kind, form.name, PLEACH_ALL_GATHER, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = {outputs};
  set_pieces(wanted, inputs, outputs, inputs, size_);
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
  Request wanted = request(c10d::OpType::GATHER, kName, PLEACH_GATHER, options);
  wanted.task.inputs = wanted.from = inputs;
  wanted.task.outputs = outputs;
  if (is_root) {
    wanted.to = only_list(kName, outputs, size_);
  }
  for (const at::Tensor& output : wanted.to) {
    check_part(kName, input, output, rank_);
  }
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = input.numel();
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
  Request wanted = request(c10d::OpType::SCATTER, kName, PLEACH_SCATTER, options);
  if (is_root) {
    wanted.task.inputs = wanted.from = only_list(kName, inputs, size_);
  }
  for (const at::Tensor& input : wanted.from) {
    check_part(kName, output, input, rank_);
  }
  wanted.task.outputs = {outputs};
  wanted.to = outputs;
  wanted.asked.root = static_cast<int32_t>(options.rootRank);
  wanted.asked.count = output.numel();
  return begin(std::move(wanted));
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor& output = only(kName, outputs);
  const Tensors& list = only_list(kName, inputs, size_);
  check_part(kName, output, list[rank_], rank_);
  Request wanted = request(c10d::OpType::REDUCE_SCATTER, kName, PLEACH_REDUCE_SCATTER, options);
  wanted.task.inputs = list;
  wanted.task.outputs = {outputs};
  set_parts(wanted, list, outputs, list);
  wanted.reduce_by(options.reduceOp, kName);
  return begin(std::move(wanted));
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  return reduce_scatter_pieces(
      {c10d::OpType::_REDUCE_SCATTER_BASE, "_reduce_scatter_base", "reduce_scatter_tensor"},
      {output}, {input}, options);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor_coalesced";
  check_pairs(kName, outputs, inputs);
  return for_each_type(rank_, outputs, inputs,
                       [&](const Tensors& some_outputs, const Tensors& some_inputs) {
                         return reduce_scatter_pieces({c10d::OpType::COALESCED, kName, kName},
                                                      some_outputs, some_inputs, options);
                       });
}

WorkPointer Backend::reduce_scatter_pieces(const Form& form, const Tensors& outputs,
                                           const Tensors& inputs,
                                           const c10d::ReduceScatterOptions& options) {
  check_tensors(form.what, inputs);
  for (size_t index = 0; index < inputs.size(); ++index) {
    check_whole(form.what, inputs[index], outputs[index], size_);
  }
  Request wanted = request(form.kind, form.name, PLEACH_REDUCE_SCATTER, options);
  wanted.task.inputs = inputs;
  wanted.task.outputs = {outputs};
  set_pieces(wanted, inputs, outputs, outputs, size_);
  wanted.reduce_by(options.reduceOp, form.what);
  return begin(std::move(wanted));
}

}  // namespace pleach_torch
