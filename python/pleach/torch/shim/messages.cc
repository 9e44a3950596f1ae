// Messages between two ranks, and the barrier that is made of them.
#include <limits>

#include "backend.h"
#include "ending.h"
#include "errors.h"

namespace pleach_torch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Above these tags are the shim's own.
constexpr int kArrivalTag = std::numeric_limits<int32_t>::max() - 1;
constexpr int kReleaseTag = std::numeric_limits<int32_t>::max();

void check_message(const char* what, const Tensors& tensors, int tag) {
  only(what, tensors);
  TORCH_CHECK(tag >= 0 && tag < kArrivalTag, "pleach: ", what, ": tag ", tag, " is not in [0, ",
              kArrivalTag, ")");
}

struct Sent {
  pleach_operation* operation = nullptr;
  ~Sent() { pleach_operation_destroy(operation); }
};

}  // namespace

WorkPointer Backend::message(Request request, int peer, int tag) {
  request.message = {peer, tag};
  request.asked.count = total_size(request.to.empty() ? request.from : request.to);
  request.task.is_message = true;
  request.task.peer = peer;
  request.task.timeout = timeout_of(milliseconds(0));
  return begin(std::move(request));
}

WorkPointer Backend::send(Tensors& tensors, int target, int tag) {
  check_message("send", tensors, tag);
  check_rank("send", target);
  Request wanted(c10d::OpType::SEND, "send", {rank_, size_});
  wanted.task.inputs = wanted.from = tensors;
  return message(std::move(wanted), target, tag);
}

WorkPointer Backend::recv(Tensors& tensors, int source, int tag) {
  check_rank("recv", source);
  check_message("recv", tensors, tag);
  return receive({c10d::OpType::RECV, "recv", {rank_, size_}}, tensors, source, tag);
}

WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  check_message("recv", tensors, tag);
  return receive({c10d::OpType::RECVANYSOURCE, "recvAnySource", {rank_, size_}}, tensors,
                 PLEACH_ANY_RANK, tag);
}

WorkPointer Backend::receive(Request wanted, const Tensors& tensors, int source, int tag) {
  wanted.task.outputs = {tensors};
  wanted.to = tensors;
  return message(std::move(wanted), source, tag);
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  const Call call;
  const milliseconds timeout =
      options.timeout == c10d::kUnsetTimeout ? milliseconds(timeout_ms_.load()) : options.timeout;
  TORCH_CHECK_WITH(DistBackendError, timeout.count() > 0, "pleach: Rank ", rank_,
                   " timed out in monitoredBarrier after ", timeout.count(), " ms");
  if (rank_ == 0) {
    monitor_as_first(timeout, wait_all_ranks);
  } else {
    monitor_as_other(timeout);
  }
}

bool Backend::await_message(pleach_operation* operation, steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return pleach_operation_wait(operation, std::max<int64_t>(left.count(), 0)) == PLEACH_OK;
}

void Backend::monitor_as_first(milliseconds timeout, bool wait_all_ranks) {
  const auto deadline = steady_clock::now() + timeout;
  std::vector<Sent> arrivals(size_);
  for (int rank = 1; rank < size_; ++rank) {
    check(pleach_receive(group_->communicator().get(), nullptr, 0, rank, kArrivalTag, nullptr,
                         &arrivals[rank].operation));
  }
  std::vector<int> missing;
  for (int rank = 1; rank < size_ && (wait_all_ranks || missing.empty()); ++rank) {
    if (!await_message(arrivals[rank].operation, deadline)) {
      missing.push_back(rank);
    }
  }
  if (!missing.empty()) {
    const std::string late =
        c10::str("Rank", missing.size() > 1 ? "s " : " ", c10::Join(", ", missing),
                 " failed to pass monitoredBarrier in ", timeout.count(), " ms");
    group_->abort(late);
    C10_THROW_ERROR(DistBackendError, "pleach: [Rank 0]: " + late);
  }
  for (int rank = 1; rank < size_; ++rank) {
    Sent release;
    check(pleach_send(group_->communicator().get(), nullptr, 0, rank, kReleaseTag,
                      &release.operation));
    TORCH_CHECK_WITH(DistBackendError, await_message(release.operation, deadline + timeout),
                     "pleach: monitoredBarrier: rank ", rank, " came, and was lost");
  }
}

void Backend::monitor_as_other(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  Sent arrival;
  Sent release;
  check(pleach_receive(group_->communicator().get(), nullptr, 0, 0, kReleaseTag, nullptr,
                       &release.operation));
  check(pleach_send(group_->communicator().get(), nullptr, 0, 0, kArrivalTag, &arrival.operation));
  // Rank 0 may find out at the last moment that somebody is missing, and then tells.
  const bool is_well = await_message(arrival.operation, deadline) &&
                       await_message(release.operation, deadline + milliseconds(1000));
  TORCH_CHECK_WITH(DistBackendError, is_well, "pleach: Rank ", rank_,
                   " successfully reached monitoredBarrier, but received errors while waiting for "
                   "send/recv from rank 0: ",
                   pleach_last_error());
}

}  // namespace pleach_torch
