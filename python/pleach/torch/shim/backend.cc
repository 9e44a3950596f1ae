#include "backend.h"

#include <utility>

#include "errors.h"
#include "memory.h"

namespace pleach_torch {
using std::chrono::milliseconds;

Backend::Backend(std::shared_ptr<Group> group, std::vector<uint64_t> global_ranks)
    : c10d::Backend(group->rank(), group->rank_count()),
      group_(std::move(group)),
      options_(c10::make_intrusive<Options>("pleach", group_->timeout())),
      timeout_ms_(group_->timeout().count()) {
  options_->group_name = group_->name();
  options_->global_ranks_in_group = std::move(global_ranks);
  init();
}

Backend::~Backend() {
  group_->leave();
}

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() {
  return options_;
}

Backend::Request Backend::request(c10d::OpType kind, const char* name,
                                  pleach_collective collective) const {
  Request request;
  request.task.kind = kind;
  request.task.name = name;
  request.asked.size = sizeof request.asked;
  request.asked.collective = collective;
  return request;
}

void Backend::set_caller(Request& request, bool is_async, milliseconds timeout) const {
  request.task.is_async = is_async;
  request.task.timeout = own_timeout(timeout);
}

// 0 where the endpoint's deadline, which every operation has, is the one to go by.
milliseconds Backend::own_timeout(milliseconds wanted) const {
  const milliseconds least =
      wanted.count() > 0 ? wanted : milliseconds(timeout_ms_.load(std::memory_order_relaxed));
  return least < group_->timeout() ? least : milliseconds(0);
}

void Backend::check_rank(const char* what, int64_t rank) const {
  TORCH_CHECK(rank >= 0 && rank < size_, "pleach: ", what, ": rank ", rank, " is not in [0, ",
              size_, ")");
}

// Counts are of PyTorch's elements so far.
void Backend::scale(Request& request, const Elements& elements) const {
  request.asked.type = elements.type;
  request.asked.count *= elements.per_element;
  if (elements.per_element != 1) {
    for (int64_t& count : request.counts) {
      count *= elements.per_element;
    }
    for (int64_t& count : request.receive_counts) {
      count *= elements.per_element;
    }
  }
}

WorkPointer Backend::begin(Request request) {
  pleach_request asked = request.asked;
  asked.counts = request.counts.empty() ? nullptr : request.counts.data();
  asked.receive_counts = request.receive_counts.empty() ? nullptr : request.receive_counts.data();
  return begin_task(std::move(request.task),
                    [&](pleach_communicator* communicator, pleach_operation** operation) {
                      return pleach_perform(communicator, &asked, operation);
                    });
}

WorkPointer Backend::begin_task(Task task, const Ask& ask) {
  const bool is_message = task.is_message;
  auto work =
      Work::begin(group_, std::move(task), is_message ? ++message_sequence_ : ++sequence_, ask);
  const std::scoped_lock lock(coalescing_mutex_);
  if (is_coalescing_) {
    coalesced_.push_back(work);
  }
  return work;
}

void Backend::startCoalescing() {
  const std::scoped_lock lock(coalescing_mutex_);
  is_coalescing_ = true;
  coalesced_.clear();
}

WorkPointer Backend::endCoalescing() {
  const std::scoped_lock lock(coalescing_mutex_);
  is_coalescing_ = false;
  return c10::make_intrusive<CoalescedWork>(rank_, std::exchange(coalesced_, {}));
}

void Backend::setTimeout(milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0 && timeout <= group_->timeout(), "pleach: a timeout of ",
                    timeout.count(), " ms: group ", group_->name(), " was created with one of ",
                    group_->timeout().count(), " ms, which can only be shortened");
  timeout_ms_ = timeout.count();
  options_->timeout = timeout;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  TORCH_CHECK_NOT_IMPLEMENTED(!options.has_device() || options.device().is_cpu(),
                              "pleach: allocate_tensor: memory of ", options.device(),
                              " is not shared between ranks");
  return allocate(size, c10::typeMetaToScalarType(options.dtype()));
}

void Backend::abort() {
  group_->abort("it was aborted");
}

void Backend::shutdown() {
  group_->leave();
}

c10d::ErrorType Backend::getError() {
  return c10d::ErrorType::SUCCESS;
}

}  // namespace pleach_torch
