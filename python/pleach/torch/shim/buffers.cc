#include "buffers.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstring>

#include "memory.h"

namespace pleach_torch {
namespace {

void copy_elements(const at::Tensor& source, const at::Tensor& target) {
  if (source.nbytes() == 0) {
    return;
  }
  if (source.is_contiguous() && target.is_contiguous()) {
    std::memcpy(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes());
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  target.copy_(source.view(target.sizes()));
}

std::byte* address(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}

// Whose memory begins where all of theirs does.
const at::Tensor& first_with_memory(const Tensors& tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const at::Tensor& tensor) { return tensor.numel() > 0; });
  return found == tensors.end() ? tensors[0] : *found;
}

// Memory for all, and each one's part of it, as flat tensors.
Flat new_flat(const Tensors& tensors, Tensors& parts) {
  Flat flat;
  flat.size = total_size(tensors);
  flat.memory = allocate(flat.size, tensors[0].scalar_type());
  flat.data = flat.memory.data_ptr();
  int64_t begin = 0;
  for (const at::Tensor& tensor : tensors) {
    parts.push_back(flat.memory.narrow(0, begin, tensor.numel()));
    begin += tensor.numel();
  }
  return flat;
}

}  // namespace

void check_tensors(const char* what, const Tensors& tensors) {
  TORCH_CHECK(!tensors.empty(), "pleach: ", what, ": there is no tensor");
  const at::Tensor& first = tensors[0];
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == at::kStrided, "pleach: ", what,
                                ": sparse tensors are not supported (layout ", tensor.layout(),
                                ")");
    TORCH_CHECK(tensor.scalar_type() == first.scalar_type(), "pleach: ", what,
                ": tensors of mixed types, ", first.scalar_type(), " and ", tensor.scalar_type());
    TORCH_CHECK(tensor.device() == first.device(), "pleach: ", what,
                ": tensors on several devices, ", first.device(), " and ", tensor.device());
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.is_cpu() || tensor.is_cuda() || tensor.is_privateuseone(),
                                "pleach: ", what, ": tensors on ", tensor.device(),
                                " are not supported");
    TORCH_CHECK_NOT_IMPLEMENTED(!tensor.is_conj() && !tensor.is_neg(), "pleach: ", what,
                                ": a tensor that is conjugated or negated when it is read is not "
                                "supported: call resolve_conj() or resolve_neg() before");
  }
}

const at::Tensor& only(const char* what, const Tensors& tensors) {
  TORCH_CHECK(tensors.size() == 1, "pleach: ", what, ": takes one tensor, not ", tensors.size());
  check_tensors(what, tensors);
  return tensors[0];
}

bool are_adjacent(const Tensors& tensors) {
  const at::Tensor& first = first_with_memory(tensors);
  const std::byte* next = nullptr;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.is_contiguous()) {
      return false;
    }
    if (tensor.nbytes() == 0) {
      continue;
    }
    // Of one allocation: what only happens to lie beside is not one buffer for who lends memory.
    if (next != nullptr && (address(tensor) != next || !tensor.is_alias_of(first))) {
      return false;
    }
    next = address(tensor) + tensor.nbytes();
  }
  return true;
}

Flat flat_input(const Tensors& tensors) {
  if (are_adjacent(tensors)) {
    return {first_with_memory(tensors).data_ptr(), total_size(tensors), {}};
  }
  return flat_copy(tensors);
}

Flat flat_copy(const Tensors& tensors) {
  Tensors parts;
  Flat flat = new_flat(tensors, parts);
  for (size_t index = 0; index < tensors.size(); ++index) {
    copy_elements(tensors[index].is_contiguous() ? tensors[index] : tensors[index].contiguous(),
                  parts[index]);
  }
  return flat;
}

Flat flat_output(const Tensors& tensors, std::vector<Landing>& landings) {
  if (are_adjacent(tensors)) {
    return {first_with_memory(tensors).data_ptr(), total_size(tensors), {}};
  }
  Tensors parts;
  Flat flat = new_flat(tensors, parts);
  for (size_t index = 0; index < tensors.size(); ++index) {
    landings.push_back({parts[index], tensors[index]});
  }
  return flat;
}

Flat flat_in_place(const Tensors& tensors, std::vector<Landing>& landings) {
  const size_t landed = landings.size();
  const Flat flat = flat_output(tensors, landings);
  for (size_t index = landed; index < landings.size(); ++index) {
    const at::Tensor& tensor = landings[index].target;
    copy_elements(tensor.is_contiguous() ? tensor : tensor.contiguous(), landings[index].source);
  }
  return flat;
}

void separate(Flat& from, const Flat& to, int64_t others, const Tensors& inputs) {
  const auto element_bytes = static_cast<int64_t>(inputs[0].element_size());
  const auto* const input = static_cast<const std::byte*>(from.data);
  const auto* const output = static_cast<const std::byte*>(to.data);
  const int64_t input_bytes = from.size * element_bytes;
  const int64_t output_bytes = to.size * element_bytes;
  const bool overlap = input_bytes > 0 && output_bytes > 0 && input < output + output_bytes &&
                       output < input + input_bytes;
  const int64_t apart = from.size < to.size ? input - output : output - input;
  if (overlap && apart != others * element_bytes) {
    from = flat_copy(inputs);
  }
}

void land(const Landing& landing) {
  copy_elements(landing.source, landing.target);
}

int64_t total_size(const Tensors& tensors) {
  int64_t size = 0;
  for (const at::Tensor& tensor : tensors) {
    size += tensor.numel();
  }
  return size;
}

std::vector<int64_t> sizes_in(const Tensors& tensors) {
  std::vector<int64_t> sizes;
  sizes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    sizes.push_back(tensor.numel());
  }
  return sizes;
}

}  // namespace pleach_torch
