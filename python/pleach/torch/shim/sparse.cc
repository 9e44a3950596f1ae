// Sums of sparse tensors: every rank gets all entries, and adds them up.
#include <ATen/ATen.h>

#include <numeric>

#include "backend.h"

namespace pleach_torch {
namespace {

// The rows of all ranks, one rank's behind the other's. Blocks.
pleach_status gather_rows(pleach_communicator* communicator, const at::Tensor& rows,
                          const std::vector<int64_t>& row_counts, at::Tensor& all) {
  std::vector<int64_t> sizes = rows.sizes().vec();
  const int64_t row_size = c10::multiply_integers(sizes.begin() + 1, sizes.end());
  sizes[0] = std::accumulate(row_counts.begin(), row_counts.end(), int64_t{0});
  all = at::empty(sizes, rows.options());
  const Elements moved = moved_elements(rows.scalar_type());
  std::vector<int64_t> counts;
  for (const int64_t count : row_counts) {
    counts.push_back(count * row_size * moved.per_element);
  }
  return pleach_all_gather_v(communicator, rows.const_data_ptr(), all.mutable_data_ptr(),
                             counts.data(), moved.type, nullptr);
}

// Of the entries of all ranks; `sum` is as `tensor`, which is coalesced.
pleach_status add_up(pleach_communicator* communicator, const at::Tensor& tensor, int size,
                     at::Tensor& sum) {
  const at::Tensor indices = tensor.indices().t().contiguous();
  const at::Tensor values = tensor.values().contiguous();
  const int64_t own_count = values.size(0);
  std::vector<int64_t> counts(size);
  pleach_status status =
      pleach_all_gather(communicator, &own_count, counts.data(), 1, PLEACH_INT64, nullptr);
  at::Tensor all_indices;
  at::Tensor all_values;
  if (status == PLEACH_OK) {
    status = gather_rows(communicator, indices, counts, all_indices);
  }
  if (status == PLEACH_OK) {
    status = gather_rows(communicator, values, counts, all_values);
  }
  if (status == PLEACH_OK) {
    sum = at::sparse_coo_tensor(all_indices.t(), all_values, tensor.sizes()).coalesce();
  }
  return status;
}

}  // namespace

WorkPointer Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr const char* kName = "sparse_all_reduce";
  TORCH_CHECK(tensors.size() == 1, "pleach: ", kName, ": takes one tensor, not ", tensors.size());
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kSparse && tensor.is_cpu(), "pleach: ", kName,
                              ": a tensor of layout ", tensor.layout(), " on ", tensor.device(),
                              " is not supported: sparse tensors are coordinates on the CPU");
  TORCH_CHECK_NOT_IMPLEMENTED(options.reduceOp == c10d::ReduceOp::SUM, "pleach: ", kName, ": ",
                              name_of(options.reduceOp),
                              " of sparse tensors is not supported: SUM is");
  const at::NoGradGuard no_gradients;
  const at::Tensor own = tensor.coalesce();
  Task task;
  task.kind = c10d::OpType::_ALLREDUCE_SPARSE;
  task.name = kName;
  task.outputs = {tensors};
  task.timeout = timeout_of(options.timeout);
  task.is_async = false;  // how many entries there are decides what is run next
  at::Tensor sum;
  auto work = begin_task(std::move(task),
                         [&](pleach_communicator* communicator, pleach_operation** /*operation*/) {
                           return add_up(communicator, own, size_, sum);
                         });
  tensor.copy_(sum);
  return work;
}

}  // namespace pleach_torch
