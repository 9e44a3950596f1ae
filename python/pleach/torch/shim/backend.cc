#include "backend.h"

#include <utility>

#include "errors.h"
#include "memory.h"

namespace pleach_torch {
using std::chrono::milliseconds;

Backend::Backend(std::shared_ptr<Group> group, std::vector<uint64_t> global_ranks)
    : c10d::Backend(group->rank(), group->rank_count()),
      group_(std::move(group)),
      options_(c10::make_intrusive<Options>("pleach",
                                            milliseconds(group_->options().carrier.timeout_ms))),
      timeout_ms_(group_->options().carrier.timeout_ms) {
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

milliseconds Backend::timeout_of(milliseconds wanted) const {
  return wanted.count() > 0 ? wanted : milliseconds(timeout_ms_.load(std::memory_order_relaxed));
}

void Backend::check_rank(const char* what, int64_t rank) const {
  TORCH_CHECK(rank >= 0 && rank < size_, "pleach: ", what, ": rank ", rank, " is not in [0, ",
              size_, ")");
}

WorkPointer Backend::begin(Request request) {
  request.asked.deadline_ms = request.task.timeout.count();
  if (!request.device().is_cpu()) {
    const auto kept = std::make_shared<Request>(std::move(request));
    Task task = std::move(kept->task);
    const uint64_t sequence = next_sequence(task);
    return note(Work::begin_staged(group_, std::move(task), sequence, kept));
  }
  request.place();
  request.scale();
  Task task = std::move(request.task);
  return begin_task(std::move(task),
                    [kept = std::make_shared<Request>(std::move(request))](
                        pleach_communicator* communicator, pleach_operation** operation) {
                      return kept->perform(communicator, operation);
                    });
}

WorkPointer Backend::begin_task(Task task, const Ask& ask) {
  const uint64_t sequence = next_sequence(task);
  return note(Work::begin(group_, std::move(task), sequence, ask));
}

uint64_t Backend::next_sequence(const Task& task) {
  return task.is_message ? ++message_sequence_ : ++sequence_;
}

// For the caller, if coalescing.
WorkPointer Backend::note(WorkPointer work) {
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
  TORCH_CHECK_VALUE(timeout.count() > 0, "pleach: a timeout of ", timeout.count(), " ms");
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
  return group_->has_failed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

}  // namespace pleach_torch
